//! What the ledger says of a world.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    Plan,
    ledger::{Entry, What},
    merchant::{Known, Paid},
    world::World,
};

/// What a world came to.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Findings {
    /// Payments whose merchants know that they are made.
    pub(super) paid: u64,
    /// Payments whose merchants have given up without an answer.
    pub(super) outcome_unknown: u64,
    /// Requests that merchants sent.
    pub(super) tries: u64,
    /// Of these, how many got no answer in time.
    pub(super) timed_out: u64,
    /// Payments with more than one charge.
    pub(super) charged_twice: u64,
    /// What was charged beyond the first charge of a payment, in cents.
    pub(super) cents_charged_twice: u64,
    /// Requests that were answered with the stored answer.
    pub(super) replays: u64,
    /// Requests that were told that another attempt is running.
    pub(super) conflicts: u64,
    /// Requests that got the answer of another payment, or were told that their key stands for one.
    pub(super) wrong_answers: u64,
    /// Requests that the service did not take, because the store failed.
    pub(super) refused: u64,
    /// Executions that were told that an earlier attempt may have run.
    pub(super) take_overs: u64,
    /// Of these, how many found that the charge was made, and did not make it again.
    pub(super) found_made: u64,
    /// Requests whose owner crashed.
    pub(super) crashes: u64,
    /// Worker processes that were killed.
    pub(super) killed: u64,
    /// Payments that ran twice without being told: more than one execution believed to be the first.
    /// In the world without keys nobody is ever told.
    pub(super) undisclosed: BTreeSet<u64>,
    /// Payments that are paid, as their merchants were told, and that nobody was charged for.
    pub(super) never_charged: BTreeSet<u64>,
}

impl Findings {
    pub(super) fn new(plan: &Plan, world: World, paid: &[Paid], entries: &[Entry]) -> Self {
        let mut findings = Self::default();
        let mut charges = BTreeMap::<u64, Charges>::new();
        for entry in entries {
            let is_later = entry.told.is_some_and(|attempt| attempt > 1);
            match entry.what {
                What::Began => {
                    findings.take_overs += u64::from(is_later);
                    let charges = charges.entry(entry.payment).or_default();
                    charges.begun_as_first += u64::from(!is_later);
                }
                What::Found => findings.found_made += 1,
                What::Charged => {
                    let charges = charges.entry(entry.payment).or_default();
                    charges.all += 1;
                    charges.as_first += u64::from(!is_later);
                }
            }
        }
        for (payment, Charges { all, as_first, begun_as_first }) in &charges {
            if *all > 1 {
                findings.charged_twice += 1;
                findings.cents_charged_twice += (all - 1) * plan.schedule.amount(*payment);
            }
            if *as_first.max(begun_as_first) > 1 && world == World::WithKeys {
                findings.undisclosed.insert(*payment);
            }
        }
        for Paid { payment, known, tries, timed_out } in paid {
            findings.tries += tries;
            findings.timed_out += timed_out;
            match known {
                Known::Unknown => findings.outcome_unknown += 1,
                Known::Paid => {
                    findings.paid += 1;
                    if charges.get(payment).is_none_or(|charges| charges.all == 0) {
                        findings.never_charged.insert(*payment);
                    }
                }
            }
        }
        findings
    }
}

/// Of one payment.
#[derive(Default)]
struct Charges {
    all: u64,
    /// By executions that were not told of an earlier one.
    as_first: u64,
    /// Executions that were not told of an earlier one, whether they came to charge or crashed before.
    begun_as_first: u64,
}

#[cfg(test)]
mod tests {
    use super::{super::schedule::Schedule, *};

    fn judged(world: World, events: &[(u64, u32, What)]) -> Findings {
        let plan = Plan { schedule: Schedule::new(1, 0.0), payments: 9, merchants: 1 };
        let entries: Vec<_> = events
            .iter()
            .map(|&(payment, attempt, what)| {
                let told = (world == World::WithKeys).then_some(attempt);
                Entry { payment, told, what }
            })
            .collect();
        let paid = [Known::Paid, Known::Unknown].map(|known| Paid {
            payment: 1,
            known,
            tries: 2,
            timed_out: 1,
        });
        Findings::new(&plan, world, &paid, &entries)
    }

    /// The detector itself: what counts as told, and what does not.
    #[test]
    fn two_executions_that_believe_to_be_the_first_are_undisclosed() {
        use What::{Began, Charged, Found};
        let cases = [
            (vec![(1, 1, Charged)], 0, 0),
            (vec![(1, 1, Charged), (2, 1, Charged)], 0, 0),
            (vec![(1, 1, Charged), (1, 2, Began), (1, 2, Found)], 0, 0),
            // told: charged twice, but not behind anybody's back
            (vec![(1, 1, Charged), (1, 2, Charged)], 1, 0),
            // the first was slow, and charged after the one that took over
            (vec![(1, 2, Charged), (1, 1, Charged)], 1, 0),
            (vec![(1, 1, Charged), (2, 1, Charged), (1, 1, Charged)], 1, 1),
            // the first crashed before it charged, and the second was not told of it
            (vec![(1, 1, Began), (1, 1, Began), (1, 1, Charged)], 0, 1),
            (vec![(1, 1, Began), (1, 2, Began), (1, 2, Charged)], 0, 0),
        ];
        for (events, twice, undisclosed) in cases {
            let findings = judged(World::WithKeys, &events);
            let found = (findings.charged_twice, findings.undisclosed.len());
            assert_eq!(found, (twice, undisclosed), "{events:?}");
            assert_eq!(findings.cents_charged_twice > 0, twice > 0);
            let without = judged(World::WithoutKeys, &events);
            assert_eq!((without.charged_twice, without.undisclosed.len()), (twice, 0));
        }
    }

    #[test]
    fn what_is_paid_must_have_been_charged() {
        let findings = judged(World::WithKeys, &[(2, 1, What::Charged)]);
        assert_eq!(findings.never_charged, BTreeSet::from([1]));
        assert_eq!((findings.paid, findings.outcome_unknown), (1, 1));
        assert_eq!((findings.tries, findings.timed_out), (4, 2));
        assert!(judged(World::WithKeys, &[(1, 1, What::Charged)]).never_charged.is_empty());
        // to begin is not to charge
        let begun = judged(World::WithKeys, &[(1, 1, What::Began)]);
        assert_eq!(begun.never_charged, BTreeSet::from([1]));
    }
}
