//! Random programs give the same answers as the machine over a plain map.

use std::{collections::HashMap, fmt::Debug, num::NonZeroU32};

use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimRequest, ClaimToken, Clock, CompleteRequest, Fingerprint, IdempotencyKey,
    IdempotencyStore, Lease, ManualClock, Record, Release, ReleaseRequest, RenewRequest, Retention,
    SeenClaim, Settlement, StoreAdmin, StoreError, Sweep, Takeover,
    machine::{self, Decision, Now, Write},
};
use idempotency_memory::MemoryStore;
use proptest::{collection::vec, prelude::*, sample::select};

use crate::support::{at_once, attempt, body, key, millis};

/// One step of a program. Keys, tokens, attempts and durations come out of small sets, so that they
/// meet.
#[derive(Clone, Debug)]
struct Step {
    what: What,
    key: u8,
    token: u8,
    attempt: u32,
    body: u8,
    short: u64,
    long: u64,
}

#[derive(Clone, Debug)]
enum What {
    Claim(Takeover),
    Complete(Vec<u8>),
    Renew(u64, Option<Vec<u8>>),
    Release(Release),
    SettleCompleted(Vec<u8>),
    SettleFailed,
    SettleNotStarted,
    Remove,
    Advance,
    Sweep(u32),
}

fn what() -> impl Strategy<Value = What> {
    let bytes = || vec(any::<u8>(), 0..4);
    let releases = vec![Release::NotStarted, Release::Failed, Release::Unknown];
    prop_oneof![
        8 => select(vec![Takeover::Allow, Takeover::Refuse]).prop_map(What::Claim),
        4 => bytes().prop_map(What::Complete),
        3 => (1..4_u64, proptest::option::of(bytes())).prop_map(|(s, c)| What::Renew(s, c)),
        3 => select(releases).prop_map(What::Release),
        1 => bytes().prop_map(What::SettleCompleted),
        1 => Just(What::SettleFailed),
        1 => Just(What::SettleNotStarted),
        1 => Just(What::Remove),
        6 => Just(What::Advance),
        2 => (1..4_u32).prop_map(What::Sweep),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    (what(), 0..3_u8, 0..3_u8, 1..4_u32, 0..8_u8, 1..30_u64, 1..60_u64).prop_map(
        |(what, key, token, attempt, body, short, long)| Step {
            what,
            key,
            token,
            attempt,
            // mostly the same request
            body: u8::from(body == 0),
            short,
            long,
        },
    )
}

/// The machine, folded over a map from which nothing ever leaves.
#[derive(Debug, Default)]
struct Model(HashMap<IdempotencyKey, Record>);

impl Model {
    fn apply<A>(
        &mut self,
        key: &IdempotencyKey,
        decide: impl FnOnce(Option<&Record>) -> Result<Decision<A>, StoreError>,
    ) -> Result<A, StoreError> {
        let Decision { write, answer } = decide(self.0.get(key))?;
        if let Write::Put(record) = write {
            self.0.insert(key.clone(), record);
        }
        Ok(answer)
    }
}

struct Run {
    model: Model,
    store: MemoryStore,
    clock: ManualClock,
}

/// What an answer is compared by: errors by their text, which holds kind, operation and effect.
fn text<A: Debug>(answer: Result<A, StoreError>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => error.to_string(),
    }
}

impl Run {
    fn step(&mut self, step: &Step) {
        let key = key(format!("k{}", step.key));
        let now = Now::from(self.clock.now());
        let (store, model) = (&self.store, &mut self.model);
        let (theirs, ours) = match &step.what {
            What::Claim(takeover) => {
                let request = step.claim(&key, *takeover);
                let theirs = model.apply(&key, |record| machine::claim(record, &request, now));
                (text(theirs), text(at_once(store.claim(request))))
            }
            What::Complete(response) => {
                let request = step.complete(&key, response);
                let decide = |record: Option<&Record>| Ok(machine::complete(record, &request, now));
                (text(model.apply(&key, decide)), text(at_once(store.complete(request.clone()))))
            }
            What::Renew(sequence, checkpoint) => {
                let request = step.renew(&key, *sequence, checkpoint.as_deref());
                let decide = |record: Option<&Record>| Ok(machine::renew(record, &request, now));
                (text(model.apply(&key, decide)), text(at_once(store.renew(request.clone()))))
            }
            What::Release(release) => {
                let request = step.release(&key, *release);
                let decide = |record: Option<&Record>| Ok(machine::release(record, &request, now));
                (text(model.apply(&key, decide)), text(at_once(store.release(request))))
            }
            What::Remove => {
                let decide =
                    |record: Option<&Record>| Ok(machine::remove(record, step.seen(), now));
                (text(model.apply(&key, decide)), text(at_once(store.remove(&key, step.seen()))))
            }
            What::Advance => return self.clock.advance(millis(step.long)),
            What::Sweep(batch) => {
                let _ = at_once(store.sweep(NonZeroU32::new(*batch).unwrap())).unwrap();
                return;
            }
            What::SettleCompleted(_) | What::SettleFailed | What::SettleNotStarted => {
                let settlement = step.settlement();
                let decide = |record: Option<&Record>| {
                    Ok(machine::settle(record, step.seen(), &settlement, now))
                };
                let theirs = model.apply(&key, decide);
                (text(theirs), text(at_once(store.settle(&key, step.seen(), settlement.clone()))))
            }
        };
        assert_eq!(theirs, ours);
        self.same_records();
    }

    fn same_records(&self) {
        let now = Now::from(self.clock.now());
        for (key, record) in &self.model.0 {
            let theirs = machine::lookup(Some(record), now).cloned();
            assert_eq!(theirs, at_once(self.store.lookup(key)).unwrap());
        }
    }
}

impl Step {
    fn token(&self) -> ClaimToken {
        ClaimToken::from_stored_bytes([self.token; 16])
    }

    fn fingerprint(&self) -> Fingerprint {
        body(if self.body == 0 { "one" } else { "other" })
    }

    fn seen(&self) -> SeenClaim {
        SeenClaim { token: self.token(), attempt: self.attempt() }
    }

    fn attempt(&self) -> AttemptNumber {
        attempt(self.attempt)
    }

    fn retention(&self) -> Retention {
        Retention::new(millis(self.long)).unwrap()
    }

    fn lease(&self) -> Lease {
        Lease::new(millis(self.short)).unwrap()
    }

    fn claim<'a>(&self, key: &'a IdempotencyKey, takeover: Takeover) -> ClaimRequest<'a> {
        ClaimRequest {
            key,
            fingerprint: self.fingerprint(),
            token: self.token(),
            lease: self.lease(),
            retention: self.retention(),
            takeover,
        }
    }

    fn complete<'a>(&self, key: &'a IdempotencyKey, response: &[u8]) -> CompleteRequest<'a> {
        CompleteRequest {
            key,
            token: self.token(),
            attempt: self.attempt(),
            fingerprint: self.fingerprint(),
            response: Bytes::copy_from_slice(response),
            retention: self.retention(),
        }
    }

    fn renew<'a>(
        &self,
        key: &'a IdempotencyKey,
        sequence: u64,
        checkpoint: Option<&[u8]>,
    ) -> RenewRequest<'a> {
        RenewRequest {
            key,
            token: self.token(),
            attempt: self.attempt(),
            sequence: sequence.try_into().unwrap(),
            lease: self.lease(),
            checkpoint: checkpoint.map(Bytes::copy_from_slice),
        }
    }

    fn release<'a>(&self, key: &'a IdempotencyKey, release: Release) -> ReleaseRequest<'a> {
        ReleaseRequest { key, token: self.token(), attempt: self.attempt(), release }
    }

    fn settlement(&self) -> Settlement {
        match &self.what {
            What::SettleCompleted(response) => Settlement::Completed {
                response: Bytes::copy_from_slice(response),
                retention: self.retention(),
            },
            What::SettleFailed => Settlement::Failed,
            _ => Settlement::NotStarted,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Without a runtime every new record sweeps as well, so that records leave in the middle of a
    /// program; the answers must not show it. At the end nothing stays.
    #[test]
    fn any_program_is_answered_as_the_machine_answers_it(steps in vec(step(), 1..60)) {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let mut run = Run { model: Model::default(), store, clock };
        for step in &steps {
            run.step(step);
        }
        run.clock.advance(millis(1_000));
        while at_once(run.store.sweep(NonZeroU32::MAX)).unwrap().more {}
        prop_assert_eq!(run.store.len(), 0);
    }
}
