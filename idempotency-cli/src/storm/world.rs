//! One run of all payments, with keys or without.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::Context;
use idempotency::Connected;
use indicatif::ProgressBar;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use super::{
    Plan,
    fleet::{Crew, Fleet},
    judge::Findings,
    ledger::Ledger,
    merchant::{Merchant, Paid},
    network::{Answers, Network, Service},
    pace::Pace,
    shop::Shop,
};
use crate::ended::Refused;

/// Which world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum World {
    WithoutKeys,
    WithKeys,
}

/// Where the service runs.
#[derive(Debug)]
pub(super) enum Stage {
    Here(Connected),
    Processes(Crew),
}

/// Work that is still under way when all merchants have their answers is waited for this long.
const PATIENCE: Duration = Duration::from_mins(2);

impl Stage {
    fn service(&self, pace: Pace) -> anyhow::Result<Service> {
        Ok(match self {
            Self::Here(store) => {
                Service::Here(Shop::new(store.clone(), Ledger::here(), pace.lease)?)
            }
            Self::Processes(crew) => Service::Fleet(Fleet::start(crew, pace)?),
        })
    }
}

pub(super) async fn run(
    plan: &Plan,
    pace: Pace,
    stage: &Stage,
    world: World,
    progress: &ProgressBar,
) -> anyhow::Result<Findings> {
    let network = Network {
        service: Arc::new(stage.service(pace)?),
        answers: Arc::new(Answers::default()),
        under_way: TaskTracker::new(),
        pace,
    };
    let paid = pay_all(plan, world, &network, progress).await?;
    all_ended(&network.under_way).await?;
    let entries = network.service.ledger().entries().context("reading the ledger")?;
    let mut findings = Findings::new(plan, world, &paid, &entries);
    let Answers { replayed, in_progress, wrong, refused, crashed, .. } = &*network.answers;
    findings.replays = replayed.load(Ordering::Relaxed);
    findings.wrong_answers = wrong.load(Ordering::Relaxed);
    findings.refused = refused.load(Ordering::Relaxed);
    findings.conflicts = in_progress.load(Ordering::Relaxed);
    findings.crashes = crashed.load(Ordering::Relaxed);
    if let Service::Fleet(fleet) = &*network.service {
        findings.killed = fleet.stop().await?;
    }
    Ok(findings)
}

/// Waits for the requests whose clients have left.
async fn all_ended(under_way: &TaskTracker) -> Result<(), Refused> {
    under_way.close();
    let ended = tokio::time::timeout(PATIENCE, under_way.wait()).await;
    ended.map_err(|_| {
        let (minutes, requests) = (PATIENCE.as_secs() / 60, under_way.len());
        let detail = format!(
            "the storm ended: {minutes} minutes after the last payment requests are still under way \
             ({requests}): the store does not answer, or a worker process hangs"
        );
        Refused::StoreFailed(detail)
    })
}

async fn pay_all(
    plan: &Plan,
    world: World,
    network: &Network,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Paid>> {
    let mut merchants = JoinSet::new();
    // a merchant without a payment has nothing to do
    let merchants_that_pay = usize::try_from(plan.payments).unwrap_or(usize::MAX);
    for number in 0..plan.merchants.min(merchants_that_pay) {
        let merchant = Merchant { plan: plan.clone(), world, number, network: network.clone() };
        let progress = progress.clone();
        merchants.spawn(async move {
            let mut paid = Vec::new();
            for payment in merchant.payments() {
                paid.push(merchant.pay(payment).await);
                progress.inc(1);
                if let Service::Fleet(fleet) = &*merchant.network.service {
                    fleet.payment_ended(&merchant.plan);
                }
            }
            paid
        });
    }
    let mut paid = Vec::new();
    loop {
        tokio::select! {
            biased;
            failure = network.failure() => return Err(failure),
            merchant = merchants.join_next() => match merchant {
                None => return Ok(paid),
                Some(merchant) => paid.extend(merchant.context("a merchant")?),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind of fault: "called wrongly" for a store that does not come back.
    #[tokio::test(start_paused = true)]
    async fn requests_that_never_end_are_a_store_that_failed() {
        let under_way = TaskTracker::new();
        under_way.spawn(std::future::pending::<()>());
        let error = all_ended(&under_way).await.unwrap_err();
        assert!(error.to_string().contains("still under way (1)"), "{error}");
        assert_eq!(crate::ended::code_of(&error.into()), 3);
    }
}
