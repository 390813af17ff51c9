use std::{num::NonZeroU32, sync::Arc, time::Duration};

use idempotency_core::{
    ClaimToken, IdempotencyKey, IdempotencyStore, Record, State, StoreAdmin, StoreError, Sweep,
    Timestamp,
    machine::{self, Decision, Now, Write},
};

use super::{
    pace::{How, Pace},
    request::{Asker, Request},
    seen::Seen,
    step::{Program, Step},
};
use crate::{
    failure::{Halt, Verdict},
    harness::Aged,
    subject::Subject,
};

/// Runs a program. None when it cannot be judged: answers differ, but so late that they may.
pub(super) async fn judge(t: &Subject, pace: &Pace, program: &Program) -> Option<Verdict> {
    let mut trial = match Trial::new(t, pace) {
        Ok(trial) => trial,
        Err(halt) => return Some(Err(halt)),
    };
    let judged = trial.run(program).await;
    let late = trial.behind > pace.slack();
    (judged.is_ok() || !late).then_some(judged)
}

/// One key of a store, and the machine beside it.
struct Trial<'t> {
    t: &'t Subject,
    pace: &'t Pace,
    store: Arc<dyn IdempotencyStore>,
    admin: Option<Arc<dyn StoreAdmin>>,
    sweep: Option<Arc<dyn Sweep>>,
    key: IdempotencyKey,
    tokens: [ClaimToken; 3],
    /// What the machine has.
    record: Option<Record>,
    /// What the machine's clock says, since its start.
    elapsed: Duration,
    /// What the store's clock said at the start.
    started: Duration,
    /// How much older than by that clock the record has been made.
    aged: Duration,
    /// How much later than it should have been the latest step was.
    behind: Duration,
}

/// Far from both ends of time.
const START: Timestamp = Timestamp::from_unix_millis(1_000_000_000_000);

impl<'t> Trial<'t> {
    fn new(t: &'t Subject, pace: &'t Pace) -> Verdict<Self> {
        Ok(Self {
            t,
            pace,
            store: t.store(),
            admin: t.admin(),
            sweep: t.sweep().ok(),
            key: t.key()?,
            tokens: [t.token(), t.token(), t.token()],
            record: None,
            elapsed: Duration::ZERO,
            started: t.now(),
            aged: Duration::ZERO,
            behind: Duration::ZERO,
        })
    }

    async fn run(&mut self, program: &Program) -> Verdict {
        let (pace, key, tokens) = (self.pace, self.key.clone(), self.tokens);
        let asker = Asker { pace, key: &key, tokens };
        for (number, step) in program.iter().enumerate() {
            self.pause(step).await?;
            let request = asker.request(&step.ask)?;
            let expected = self.expected(&request)?;
            let found = self.found(request).await;
            self.same(&format!("step {number}"), &expected, found)?;
            let expected = machine::lookup(self.record.as_ref(), self.now()).cloned().into();
            let found = self.store.lookup(&self.key).await.map(Seen::from);
            self.same(&format!("the record after step {number}"), &expected, found)?;
        }
        Ok(())
    }

    fn same(&mut self, what: &str, expected: &Seen, found: Result<Seen, StoreError>) -> Verdict {
        let elapsed = self.t.since(self.started) + self.aged;
        // the latest counts, also when a pause has made up for it: what was written then was late
        self.behind = self.behind.max(elapsed.saturating_sub(self.elapsed));
        let behind = self.behind;
        let found = found.map_err(|error| Halt::error(what, &error))?;
        if found.agrees(expected, self.pace.tolerance(behind)) {
            return Ok(());
        }
        let found = format!("{found:?}, {behind:?} behind");
        Err(Halt::fail(what, format!("{expected:?}"), found))
    }

    // time

    fn now(&self) -> Now {
        let skew_bound = self.t.profile().skew_bound;
        Now { at: START.after(self.elapsed), skew_bound }
    }

    async fn pause(&mut self, step: &Step) -> Verdict {
        let mut units = step.pause;
        if units == 0 && self.pace.how() != How::Clock && self.ends_now() {
            // within the last millisecond of the record or behind it: nobody can say
            units = 1;
        }
        let pause = self.pace.pause(units, step.over);
        if pause.is_zero() {
            return Ok(());
        }
        self.elapsed += pause;
        match self.pace.how() {
            How::Clock => self.t.elapse(pause).await,
            How::Wait => {
                self.t.elapse(self.elapsed.saturating_sub(self.t.since(self.started))).await;
            }
            How::Age => match self.t.age(&self.key, pause).await? {
                Aged::Done => self.aged += pause,
                Aged::Impossible => {
                    return Err(Halt::fail("Harness::age", "what it did at first", "Impossible"));
                }
            },
        }
        Ok(())
    }

    fn ends_now(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.expires_at == self.now().at)
    }

    // the machine

    fn decide<A: Into<Seen>>(&mut self, decision: Decision<A>) -> Seen {
        if let Write::Put(record) = decision.write {
            let remembers = self.t.profile().remembers_not_started;
            let forgotten = record.state == State::Unused && !remembers;
            self.record = Some(record).filter(|_| !forgotten);
        }
        decision.answer.into()
    }

    fn expected(&mut self, request: &Request<'_>) -> Verdict<Seen> {
        let (now, stored) = (self.now(), self.record.clone());
        let stored = stored.as_ref();
        Ok(match request {
            Request::Claim(request) => match machine::claim(stored, request, now) {
                Ok(decision) => self.decide(decision),
                Err(error) => {
                    Seen::claim(Err(error)).map_err(|error| Halt::error("the machine", &error))?
                }
            },
            Request::Complete(request) => self.decide(machine::complete(stored, request, now)),
            Request::Renew(request) => self.decide(machine::renew(stored, request, now)),
            Request::Release(request) => self.decide(machine::release(stored, request, now)),
            Request::Lookup => machine::lookup(stored, now).cloned().into(),
            Request::Settle(..) | Request::Remove(_) if self.admin.is_none() => Seen::nothing(),
            Request::Settle(seen, settlement) => {
                self.decide(machine::settle(stored, *seen, settlement, now))
            }
            Request::Remove(seen) => self.decide(machine::remove(stored, *seen, now)),
            Request::Sweep => Seen::nothing(),
        })
    }

    // the store

    async fn found(&self, request: Request<'_>) -> Result<Seen, StoreError> {
        /// Some of those that are there: a record that may be swept counts as absent anyway.
        const BATCH: NonZeroU32 = NonZeroU32::MIN.saturating_add(99);
        let store = &self.store;
        Ok(match (request, &self.admin, &self.sweep) {
            (Request::Claim(request), ..) => Seen::claim(store.claim(request).await)?,
            (Request::Complete(request), ..) => store.complete(request).await?.into(),
            (Request::Renew(request), ..) => store.renew(request).await?.into(),
            (Request::Release(request), ..) => store.release(request).await?.into(),
            (Request::Lookup, ..) => store.lookup(&self.key).await?.into(),
            (Request::Settle(seen, settlement), Some(admin), _) => {
                admin.settle(&self.key, seen, settlement).await?.into()
            }
            (Request::Remove(seen), Some(admin), _) => admin.remove(&self.key, seen).await?.into(),
            (Request::Sweep, _, Some(sweep)) => {
                let _others_expire_too = sweep.sweep(BATCH).await?;
                Seen::nothing()
            }
            (Request::Settle(..) | Request::Remove(_) | Request::Sweep, ..) => Seen::nothing(),
        })
    }
}
