use std::time::Duration;

use crate::{
    attempt_number::AttemptNumber,
    key::{IdempotencyKey, KeyDigest},
    store::{ErrorKind, Operation, Release},
};

/// Something the executor did or met. Gives a digest of the key, never the key or the scope.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// What.
    pub kind: EventKind,
    /// Which executor tells.
    pub source: Source,
    /// The attempt it is about, where one is known.
    pub attempt: Option<AttemptNumber>,
    /// Time since attempt 1 began, where it is known.
    pub first_attempt_ago: Option<Duration>,
    key: &'a IdempotencyKey,
}

/// Which executor tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The kind of its store, as the [profile](crate::StoreProfile::name) says: `memory`, `redis`, …
    pub store: &'static str,
    /// Its [label](super::IdempotencyBuilder::label); empty unless it was given one.
    pub label: &'static str,
}

impl<'a> Event<'a> {
    /// An event about `key`, of no attempt in particular.
    pub const fn new(kind: EventKind, source: Source, key: &'a IdempotencyKey) -> Self {
        Self { kind, source, attempt: None, first_attempt_ago: None, key }
    }

    /// What stands for the key. It is computed here, so ask only when somebody will see it.
    pub fn key_digest(&self) -> KeyDigest {
        self.key.digest()
    }
}

/// What an [`Event`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The first attempt under a key begins.
    Acquired,
    /// A later attempt begins: an earlier one failed or its outcome is unknown.
    TakenOver,
    /// A stored answer was given.
    Replayed,
    /// Another attempt is running.
    InProgress,
    /// The key stands for another request.
    Mismatch,
    /// The outcome of an earlier attempt is unknown, and taking over is refused.
    Abandoned,
    /// The recovery hook said what became of an abandoned attempt.
    Recovered,
    /// The answer was stored.
    Completed,
    /// The answer was stored, but not kept: too large, a stream, or not encodable.
    NotKept,
    /// The answer was stored after the record had been lost: a second execution is possible.
    Restored,
    /// The attempt no longer holds its key, and another one may run.
    Lost,
    /// The work ended and its answer could not be stored: after its lease the key can run again.
    Unrecorded,
    /// The key was given back.
    Released(Release),
    /// The key should have been given back, and the store did not answer: its lease has to end.
    ReleaseFailed(Release),
    /// The work was dropped before it ended: its lease has to end.
    Dropped,
    /// The work runs longer than `max_hold`; its lease is no longer renewed.
    HoldLimitReached,
    /// The store was down and the work ran without protection, as configured.
    RanUnprotected,
    /// A try of a store operation failed; it may be repeated.
    StoreFailed(Operation, ErrorKind),
}
