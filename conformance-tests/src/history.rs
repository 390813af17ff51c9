//! Histories of one key, and whether one order explains them.

use std::{
    num::NonZeroU64,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimRequest, ClaimToken, CompleteRequest, Effect, Fingerprint, IdempotencyKey,
    IdempotencyStore, Lease, Record, Release, ReleaseRequest, RenewRequest, Retention, State,
    StoreError, Takeover, Timestamp,
    machine::{self, Decision, Now, Write},
};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use crate::answer::Answer;

/// What a worker asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Claim { token: ClaimToken, lease: Lease, takeover: Takeover },
    Complete { token: ClaimToken, attempt: AttemptNumber, response: u8 },
    Renew { token: ClaimToken, attempt: AttemptNumber, sequence: NonZeroU64, checkpoint: u8 },
    Release { token: ClaimToken, attempt: AttemptNumber, release: Release },
    Lookup,
}

/// A lease that is over at any moment: the order decides whether it was.
pub(crate) const BRIEF: Duration = Duration::from_millis(1);

impl Asked {
    /// Sends it to a store.
    pub(crate) async fn send(
        self,
        store: &dyn IdempotencyStore,
        key: &IdempotencyKey,
    ) -> Result<Answer, StoreError> {
        match self {
            Self::Claim { .. } => Answer::of_claim(store.claim(self.claim(key)).await),
            Self::Complete { .. } => store.complete(self.complete(key)).await.map(Into::into),
            Self::Renew { .. } => store.renew(self.renew(key)).await.map(Into::into),
            Self::Release { .. } => store.release(self.release(key)).await.map(Into::into),
            Self::Lookup => Ok(store.lookup(key).await?.as_ref().into()),
        }
    }

    /// What the machine decides.
    fn decide(self, key: &IdempotencyKey, record: Option<&Record>, now: Now) -> (Write, Answer) {
        match self {
            Self::Claim { .. } => match machine::claim(record, &self.claim(key), now) {
                Ok(decision) => parts(decision),
                Err(_) => (Write::Keep, Answer::TokenSpent),
            },
            Self::Complete { .. } => parts(machine::complete(record, &self.complete(key), now)),
            Self::Renew { .. } => parts(machine::renew(record, &self.renew(key), now)),
            Self::Release { .. } => parts(machine::release(record, &self.release(key), now)),
            Self::Lookup => (Write::Keep, machine::lookup(record, now).into()),
        }
    }

    /// Who asks; nobody for a lookup.
    fn who(self) -> (ClaimToken, AttemptNumber) {
        match self {
            Self::Claim { token, .. } => (token, AttemptNumber::FIRST),
            Self::Complete { token, attempt, .. }
            | Self::Renew { token, attempt, .. }
            | Self::Release { token, attempt, .. } => (token, attempt),
            Self::Lookup => (ClaimToken::from_stored_bytes([0; 16]), AttemptNumber::FIRST),
        }
    }

    fn claim(self, key: &IdempotencyKey) -> ClaimRequest<'_> {
        let (lease, takeover) = match self {
            Self::Claim { lease, takeover, .. } => (lease, takeover),
            _ => (Lease::DEFAULT, Takeover::Refuse),
        };
        let (token, _) = self.who();
        let (fingerprint, retention) = (fingerprint(), Retention::DEFAULT);
        ClaimRequest { key, fingerprint, token, lease, retention, takeover }
    }

    fn complete(self, key: &IdempotencyKey) -> CompleteRequest<'_> {
        let response = match self {
            Self::Complete { response, .. } => Bytes::from(vec![response]),
            _ => Bytes::new(),
        };
        let (token, attempt) = self.who();
        let (fingerprint, retention) = (fingerprint(), Retention::DEFAULT);
        CompleteRequest { key, token, attempt, fingerprint, response, retention }
    }

    fn renew(self, key: &IdempotencyKey) -> RenewRequest<'_> {
        let (sequence, checkpoint) = match self {
            Self::Renew { sequence, checkpoint, .. } => (sequence, Bytes::from(vec![checkpoint])),
            _ => (NonZeroU64::MIN, Bytes::new()),
        };
        let (token, attempt) = self.who();
        let (lease, checkpoint) = (Lease::DEFAULT, Some(checkpoint));
        RenewRequest { key, token, attempt, sequence, lease, checkpoint }
    }

    fn release(self, key: &IdempotencyKey) -> ReleaseRequest<'_> {
        let release = match self {
            Self::Release { release, .. } => release,
            _ => Release::Unknown,
        };
        let (token, attempt) = self.who();
        ReleaseRequest { key, token, attempt, release }
    }
}

fn fingerprint() -> Fingerprint {
    Fingerprint::of_bytes("the request")
}

fn parts<A: Into<Answer>>(decision: Decision<A>) -> (Write, Answer) {
    (decision.write, decision.answer.into())
}

/// The machine as a sequential object. A brief lease may be over or not: both are tried.
#[derive(Clone, Debug)]
struct OneKey {
    key: IdempotencyKey,
    record: Option<Record>,
    /// The brief deadline of this record was seen to be over: it stays so.
    over: bool,
    remembers_not_started: bool,
}

const LIVE: Timestamp = Timestamp::from_unix_millis(1_000_000);
const OVER: Timestamp = Timestamp::from_unix_millis(1_000_010);

/// Deadlines before this are brief ones.
const SOON: Timestamp = Timestamp::from_unix_millis(1_001_000);

impl OneKey {
    fn step(&self, asked: Asked, over: bool) -> (Self, Answer) {
        let now = if over { OVER } else { LIVE };
        let (write, answer) = asked.decide(&self.key, self.record.as_ref(), now.into());
        let mut next = Self { over, ..self.clone() };
        if let Write::Put(record) = write {
            let forgotten = record.state == State::Unused && !self.remembers_not_started;
            next.record = Some(brief_again(record)).filter(|_| !forgotten);
            next.over = false;
        }
        (next, answer)
    }
}

/// The record with its brief deadlines between the two moments that are tried.
fn brief_again(mut record: Record) -> Record {
    let brief = LIVE.after(BRIEF);
    if let State::InProgress { lease_until, .. } = &mut record.state
        && *lease_until < SOON
    {
        *lease_until = brief;
    }
    if record.expires_at < SOON {
        record.expires_at = brief;
    }
    record
}

impl SequentialSpec for OneKey {
    type Op = Asked;
    type Ret = Answer;

    fn invoke(&mut self, asked: &Asked) -> Answer {
        let (next, answer) = self.step(*asked, self.over);
        *self = next;
        answer
    }

    fn is_valid_step(&mut self, asked: &Asked, answer: &Answer) -> bool {
        let moments = if self.over { [true, true] } else { [false, true] };
        let steps = moments.map(|over| self.step(*asked, over));
        let fits = steps.into_iter().find(|(_, given)| given == answer);
        match fits {
            Some((next, _)) => {
                *self = next;
                true
            }
            None => false,
        }
    }
}

/// Who began and who had an answer, in the order of real time. Worker numbers are never used for
/// two operations at once.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Vec<Event>>);

#[derive(Clone, Debug)]
enum Event {
    Began(usize, Asked),
    Ended(usize, Answer),
    /// It is known not to have happened.
    Never(usize),
}

/// Whether a worker may go on under its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Known,
    /// It may happen for ever after: the number stays with it.
    Unknown,
}

impl History {
    fn note(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    pub(crate) fn began(&self, worker: usize, asked: Asked) {
        self.note(Event::Began(worker, asked));
    }

    pub(crate) fn ended(&self, worker: usize, answer: &Result<Answer, StoreError>) -> Fate {
        match answer {
            Ok(answer) => self.note(Event::Ended(worker, answer.clone())),
            Err(error) if error.effect() == Effect::None => self.note(Event::Never(worker)),
            Err(_) => return Fate::Unknown,
        }
        Fate::Known
    }

    /// What happened, for a failure.
    pub(crate) fn story(&self) -> String {
        format!("{:?}", self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether one order of the operations explains all the answers. Takes a while: not for a task.
    pub(crate) fn has_an_order(&self, key: IdempotencyKey, remembers_not_started: bool) -> bool {
        let record = None;
        let object = OneKey { key, record, over: false, remembers_not_started };
        let mut tester = LinearizabilityTester::new(object);
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (index, event) in events.iter().enumerate() {
            let noted = match event {
                Event::Began(worker, asked) => {
                    let rest = events.iter().skip(index + 1);
                    if fate_of(*worker, rest) == Some(false) {
                        continue;
                    }
                    tester.on_invoke(*worker, *asked).map(drop)
                }
                Event::Ended(worker, answer) => tester.on_return(*worker, answer.clone()).map(drop),
                Event::Never(_) => Ok(()),
            };
            if noted.is_err() {
                return false;
            }
        }
        tester.is_consistent()
    }
}

/// Whether the operation that this worker just began happened; none when nobody knows.
fn fate_of<'a>(worker: usize, rest: impl Iterator<Item = &'a Event>) -> Option<bool> {
    for event in rest {
        match event {
            Event::Ended(ended, _) if *ended == worker => return Some(true),
            Event::Never(ended) if *ended == worker => return Some(false),
            _ => {}
        }
    }
    None
}
