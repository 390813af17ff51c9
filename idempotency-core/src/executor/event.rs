use std::{fmt::Debug, time::Duration};

use crate::{
    attempt_number::AttemptNumber,
    key::KeyDigest,
    store::{ErrorKind, Operation, Release},
};

/// Hears what the executor does. Called in the middle of it: be quick, never block, never panic.
pub trait Observer: Debug + Send + Sync {
    /// Something happened.
    fn observe(&self, event: &Event);
}

/// Something the executor did or met. Holds a digest of the key, never the key or the scope.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// Stands for the key.
    pub key: KeyDigest,
    /// The attempt it is about, where one is known.
    pub attempt: Option<AttemptNumber>,
    /// Time since attempt 1 began, where it is known.
    pub first_attempt_ago: Option<Duration>,
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

/// The observer unless another one is set: writes each event to `tracing`.
///
/// What may lead to a second execution, or asks for an operator, is a warning; all else is debug.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn observe(&self, event: &Event) {
        let Event { kind, key, attempt, first_attempt_ago } = event;
        let attempt = attempt.map(AttemptNumber::get);
        match kind {
            EventKind::Abandoned
            | EventKind::Restored
            | EventKind::Lost
            | EventKind::Unrecorded
            | EventKind::ReleaseFailed(_)
            | EventKind::HoldLimitReached
            | EventKind::RanUnprotected
            | EventKind::StoreFailed(..) => {
                tracing::warn!(?kind, %key, attempt, ?first_attempt_ago, "idempotency");
            }
            _ => tracing::debug!(?kind, %key, attempt, ?first_attempt_ago, "idempotency"),
        }
    }
}
