//! The storm in simulated time: on the memory store, and on stores that are broken on purpose.

use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use idempotency::{
    Acquired, AttemptNumber, ClaimOutcome, ClaimRequest, CompleteRequest, FinishOutcome,
    IdempotencyKey, IdempotencyStore, Lease, MemoryStore, Record, Release, ReleaseOutcome,
    ReleaseRequest, RenewOutcome, RenewRequest, StoreError, StoreProfile,
};

use super::*;

fn plan(seed: u64, payments: u64, timeout_rate: f64) -> Plan {
    Plan { schedule: Schedule::new(seed, timeout_rate), payments, merchants: 8 }
}

fn on_memory(plan: &Plan) -> Report {
    simulate(plan, async || Ok(MemoryStore::builder().build().connected())).unwrap()
}

#[test]
fn keys_keep_every_payment_single_and_their_absence_does_not() {
    let report = on_memory(&plan(1, 2_000, 0.05));
    assert!(report.is_green(), "{report}");
    let (without, with) = (&report.without_keys, &report.with_keys);
    assert!(without.charged_twice > 20 && without.cents_charged_twice > 0, "{report}");
    assert_eq!((with.charged_twice, with.cents_charged_twice), (0, 0), "{report}");
    assert_eq!((with.paid, with.outcome_unknown), (2_000, 0), "{report}");
    // every kind of trouble was met
    assert!(with.replays > 0 && with.conflicts > 0 && with.crashes > 0, "{report}");
    assert!(with.take_overs > 0 && with.found_made > 0, "{report}");
    assert!(with.take_overs > with.found_made, "{report}");
}

/// The same seed gives the same report, to the byte; another seed another one.
#[test]
fn a_seed_reproduces_the_whole_report_on_memory() {
    let report = |seed| serde_json::to_string(&on_memory(&plan(seed, 500, 0.1))).unwrap();
    let first = report(7);
    for _ in 0..3 {
        assert_eq!(report(7), first);
    }
    assert_ne!(report(8), first);
}

#[test]
fn a_quiet_network_charges_everybody_once_in_both_worlds() {
    let report = on_memory(&plan(1, 500, 0.0));
    for world in [&report.without_keys, &report.with_keys] {
        assert_eq!((world.paid, world.tries, world.charged_twice), (500, 500, 0), "{report}");
    }
}

#[test]
fn a_network_that_always_fails_leaves_outcomes_unknown_and_says_so() {
    let report = on_memory(&plan(3, 40, 1.0));
    assert!(report.with_keys.outcome_unknown > 0, "{report}");
    assert!(report.with_keys.undisclosed.is_empty(), "{report}");
}

/// How a store is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// It says `Done`, and has forgotten the key.
    ForgetsAnswers,
    /// It forgets a key as soon as somebody else asks for it: two own it.
    GivesLiveKeysAway,
    /// It hands the key of a crashed owner over as if it had never been used.
    HidesTakeOvers,
    /// It replays the first answer that it was given, whoever asks.
    MixesAnswersUp,
}

/// The memory store with a flaw.
#[derive(Clone, Debug)]
struct Broken {
    store: MemoryStore,
    flaw: Flaw,
    /// The claims that it has forgotten, by what they still claim with.
    forgotten: Arc<Mutex<Vec<IdempotencyKey>>>,
    first_answer: Arc<OnceLock<Bytes>>,
}

impl Broken {
    fn new(flaw: Flaw) -> Self {
        Self {
            store: MemoryStore::builder().build(),
            flaw,
            forgotten: Arc::default(),
            first_answer: Arc::default(),
        }
    }
}

#[async_trait]
impl IdempotencyStore for Broken {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        let answer = self.store.claim(request).await?;
        let lease_remaining = Lease::DEFAULT.get();
        let as_first = |checkpoint, ago| Acquired {
            attempt: AttemptNumber::FIRST,
            lease_remaining,
            checkpoint,
            first_attempt_ago: ago,
        };
        Ok(match (self.flaw, answer) {
            (Flaw::GivesLiveKeysAway, ClaimOutcome::InProgress(running)) => {
                self.forgotten.lock().unwrap().push(request.key.clone());
                ClaimOutcome::Acquired(as_first(None, running.running_for))
            }
            (Flaw::HidesTakeOvers, ClaimOutcome::Acquired(acquired)) => {
                let hidden = as_first(acquired.checkpoint, acquired.first_attempt_ago);
                ClaimOutcome::Acquired(hidden)
            }
            (Flaw::MixesAnswersUp, ClaimOutcome::Replay(mut replay)) => {
                replay.response = self.first_answer.get().unwrap().clone();
                ClaimOutcome::Replay(replay)
            }
            (_, answer) => answer,
        })
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        self.first_answer.get_or_init(|| request.response.clone());
        if self.flaw != Flaw::ForgetsAnswers {
            return self.store.complete(request).await;
        }
        let CompleteRequest { key, token, attempt, .. } = request;
        let release = Release::NotStarted;
        let released = self.store.release(ReleaseRequest { key, token, attempt, release }).await?;
        assert_eq!(released, ReleaseOutcome::Released);
        Ok(FinishOutcome::Done)
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        if self.flaw == Flaw::GivesLiveKeysAway {
            return Ok(RenewOutcome::Held { lease_remaining: request.lease.get() });
        }
        self.store.renew(request).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        self.store.release(request).await
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        self.store.lookup(key).await
    }

    fn profile(&self) -> &StoreProfile {
        self.store.profile()
    }
}

/// Kind of fault: a proof that cannot fail. Each flaw has to turn the storm red.
#[test]
fn a_broken_store_is_found_out() {
    for flaw in [Flaw::ForgetsAnswers, Flaw::GivesLiveKeysAway, Flaw::HidesTakeOvers] {
        let broken = async || Ok(Connected::from(Broken::new(flaw)));
        let report = simulate(&plan(1, 1_000, 0.1), broken).unwrap();
        assert!(!report.is_green(), "{flaw:?} was not found: {report}");
        assert!(!report.with_keys.undisclosed.is_empty(), "{flaw:?}: {report}");
        assert!(report.to_string().contains("FAILED: "), "{report}");
    }
}

/// Each payment is charged once, and its retries are told of another one: that is no store that failed.
#[test]
fn a_store_that_mixes_answers_up_is_found_out() {
    let broken = async || Ok(Connected::from(Broken::new(Flaw::MixesAnswersUp)));
    let report = simulate(&plan(1, 1_000, 0.1), broken).unwrap();
    assert!(!report.is_green() && report.with_keys.wrong_answers > 0, "{report}");
    assert_eq!(report.with_keys.refused, 0, "{report}");
    assert!(report.to_string().contains("FAILED: "), "{report}");
}

/// Only owners that crash before they charge: nothing is charged twice, and the next owner is not told.
#[test]
fn a_take_over_that_is_hidden_counts_before_anything_was_charged_too() {
    let broken = async || Ok(Connected::from(Broken::new(Flaw::HidesTakeOvers)));
    let report = simulate(&plan(1, 1_000, 0.1), broken).unwrap();
    let findings = &report.with_keys;
    assert!(findings.undisclosed.len() as u64 > findings.charged_twice, "{report}");
}

#[test]
fn merchants_without_a_payment_cost_nothing() {
    let plan = Plan { merchants: usize::MAX, ..plan(1, 5, 0.0) };
    assert_eq!(on_memory(&plan).with_keys.paid, 5);
}
