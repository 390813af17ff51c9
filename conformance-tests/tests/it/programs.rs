//! Random programs with time in them, on stores that keep the contract and on stores that hardly break it.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use idempotency_conformance::{Fixture, Harness, HarnessError, Programs};
use idempotency_core::{
    CasStore, Clock, RenewOutcome, StoreProfile, SystemClock,
    machine::{self, Now},
};

use crate::{
    lab::{LabHarness, Rules},
    net::{NetFault, NetHarness, NetRecords},
    plain_map::{PlainMapHarness, profile},
};

#[test]
fn a_store_that_keeps_the_contract_agrees_to_the_millisecond() {
    Programs::new(LabHarness::new(Rules::default())).run().unwrap();
}

#[test]
fn a_store_with_a_skew_bound_agrees() {
    let mut profile = profile();
    profile.skew_bound = Duration::from_millis(1_700);
    Programs::new(PlainMapHarness { profile }).run().unwrap();
}

/// The one difference of each store is found, whatever the seed, and shown by a few steps.
#[test]
fn a_millisecond_or_a_byte_is_found_and_shown_by_a_small_program() {
    let mutants = [
        Rules {
            // the lease that is told is longer than the one that is kept
            renew: |record, request, now| {
                let mut decision = machine::renew(record, request, now);
                if let RenewOutcome::Held { lease_remaining } = &mut decision.answer {
                    *lease_remaining += Duration::from_millis(1);
                }
                Ok(decision)
            },
            ..Rules::default()
        },
        Rules {
            // a lease is over in its last millisecond
            claim: |record, request, now| {
                let at = now.at.after(Duration::from_millis(1));
                let early = machine::claim(record, request, Now { at, ..now });
                let decision = machine::claim(record, request, now);
                match (&early, &decision) {
                    (Ok(early), Ok(decision)) if kind(early) != kind(decision) => {}
                    _ => return decision,
                }
                early
            },
            ..Rules::default()
        },
        Rules {
            // a record shows another first attempt
            lookup: |record, now| {
                let mut record = machine::lookup(record, now).cloned()?;
                if record.attempt.get() > 1 {
                    record.first_claimed_at = record.claimed_at;
                }
                Some(record)
            },
            ..Rules::default()
        },
    ];
    for (number, rules) in mutants.into_iter().enumerate() {
        let found = Programs::new(LabHarness::new(rules)).count(2_000).run().unwrap_err();
        let text = found.to_string();
        assert_eq!(format!("{found:?}"), text);
        assert!(text.starts_with("laboratory, seed "), "{number}: {text}");
        // of up to thirty steps; a bound on the tries leaves one or the other that is not needed
        assert!(text.matches("\n  ").count() <= 10, "{number} is not small: {text}");
        // the seed gives the same again
        let seed = text.split([' ', ':']).nth(2).unwrap().parse().unwrap();
        let again = Programs::new(LabHarness::new(rules)).count(2_000).seed(seed).run();
        assert_eq!(again.unwrap_err().to_string(), text);
    }
}

/// The kind of an answer, without what is in it.
fn kind(
    decision: &machine::Decision<idempotency_core::ClaimOutcome>,
) -> std::mem::Discriminant<idempotency_core::ClaimOutcome> {
    std::mem::discriminant(&decision.answer)
}

/// A harness on a machine that stands still again and again.
struct Stalls {
    left: AtomicU32,
}

impl Harness for Stalls {
    type Store = CasStore<NetRecords>;

    async fn fresh(&self) -> Result<Fixture<Self::Store>, HarnessError> {
        NetHarness(NetFault::None).fresh().await
    }

    fn profile(&self) -> StoreProfile {
        NetHarness(NetFault::None).profile()
    }

    async fn elapse(&self, duration: Duration) {
        let stalls = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let stall = Duration::from_millis(if stalls.is_ok() { 700 } else { 0 });
        tokio::time::sleep(duration + stall).await;
    }
}

/// Without a clock that can be moved and without records that can be made older, the programs wait, beside
/// each other; those that the machine delays are judged again.
#[test]
fn a_store_whose_time_cannot_be_moved_is_waited_for() {
    let clock = SystemClock::new();
    let harness = Stalls { left: AtomicU32::new(30) };
    Programs::new(harness).count(24).run().unwrap();
    assert!(clock.monotonic() > Duration::from_millis(600), "nothing was waited for");
}

/// A store that does not come up is no store without faults.
#[test]
fn no_store_is_a_failure() {
    struct Down;
    impl Harness for Down {
        type Store = CasStore<NetRecords>;
        async fn fresh(&self) -> Result<Fixture<Self::Store>, HarnessError> {
            Err("connection refused".into())
        }
        fn profile(&self) -> StoreProfile {
            StoreProfile::new("down")
        }
    }
    let found = Programs::new(Down).run().unwrap_err().to_string();
    assert!(found.contains("connection refused"), "{found}");
}
