//! A merchant: pays, tries again as its client library does, and comes back when it knows of no outcome.

use std::time::Duration;

use super::{
    Plan,
    network::{Network, NoAnswer},
    schedule::{Fate, Fault},
    sdk::Sdk,
    shop::{Answer, Order},
    world::World,
};

/// What a merchant knows of a payment in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Paid,
    Unknown,
}

/// How a payment went, as its merchant saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paid {
    pub(super) payment: u64,
    pub(super) known: Known,
    pub(super) tries: u64,
    pub(super) timed_out: u64,
}

/// How often a merchant asks again after its library has given up.
const ROUNDS: u32 = 4;

/// One merchant in one world.
#[derive(Clone, Debug)]
pub(super) struct Merchant {
    pub(super) plan: Plan,
    pub(super) world: World,
    pub(super) number: usize,
    pub(super) network: Network,
}

impl Merchant {
    /// Its payments: every so-many-th.
    pub(super) fn payments(&self) -> impl Iterator<Item = u64> + use<> {
        (self.number as u64..self.plan.payments).step_by(self.plan.merchants)
    }

    /// One intent, one key, however many tries.
    pub(super) async fn pay(&self, payment: u64) -> Paid {
        let mut paid = Paid { payment, known: Known::Unknown, tries: 0, timed_out: 0 };
        for round in 0..ROUNDS {
            if round > 0 {
                tokio::time::sleep(self.network.pace.come_back).await;
            }
            self.call(&mut paid).await;
            if paid.known == Known::Paid {
                break;
            }
        }
        paid
    }

    /// One call of the client library, with its retries. Of what it gets, only an answer is final: a
    /// conflict, a refusal and silence say nothing of the outcome.
    async fn call(&self, paid: &mut Paid) {
        let sdk = Sdk::of_merchant(self.number);
        for retry in 0..sdk.tries() {
            let fate = self.plan.schedule.fate(paid.payment, paid.tries);
            if retry > 0 {
                let pause = sdk.backoff(retry, fate.jitter);
                tokio::time::sleep(pause.mul_f64(self.network.pace.backoff)).await;
            }
            paid.tries += 1;
            match self.network.send(self.order(paid.payment, fate), fate.worker).await {
                Ok(Answer::Charged | Answer::Replayed) => {
                    paid.known = Known::Paid;
                    return;
                }
                Err(NoAnswer::TimedOut) => paid.timed_out += 1,
                Ok(Answer::InProgress | Answer::Wrong | Answer::Unavailable | Answer::Broken)
                | Err(NoAnswer::ConnectionBroke) => {}
            }
        }
    }

    fn order(&self, payment: u64, fate: Fate) -> Order {
        let pace = &self.network.pace;
        let work = match fate.fault {
            Some(Fault::SlowHandler) => pace.slow_work,
            _ => pace.work.mul_f64(fate.work),
        };
        Order {
            payment,
            merchant: self.number,
            amount: self.plan.schedule.amount(payment),
            has_key: self.world == World::WithKeys,
            work_millis: millis(work),
            fault: fate.fault,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
