use std::time::Duration;

use super::{Answer, ClaimGuard, NotKeptReason};
use crate::{
    attempt_number::AttemptNumber,
    store::{Abandoned, Mismatch, Replay, Running},
};

/// What became of an operation.
#[derive(Debug)]
#[must_use = "only some outcomes carry a result"]
pub enum Outcome<T, E> {
    /// It ran now.
    Executed(Result<T, E>),
    /// It ran before; this is its stored result.
    Replayed(Result<T, E>),
    /// Another attempt is running.
    InProgress(Running),
    /// The key stands for another request.
    Mismatch(Mismatch),
    /// It is done, and its answer was not kept.
    NotKept(NotKept),
    /// An earlier attempt may have run, and taking over is refused.
    Unknown(Abandoned),
}

/// What `begin` found.
#[derive(Debug)]
#[must_use = "only `Acquired` gives the right to execute"]
pub enum Begun {
    /// The caller executes, then completes or releases the guard.
    Acquired(ClaimGuard),
    /// It is done.
    Replayed(Replayed),
    /// Another attempt is running.
    InProgress(Running),
    /// The key stands for another request.
    Mismatch(Mismatch),
    /// An earlier attempt may have run, and taking over is refused.
    Unknown(Abandoned),
}

/// A stored answer and when it came to be.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The answer.
    pub answer: Answer,
    /// The attempt that completed.
    pub attempt: AttemptNumber,
    /// Time since completion.
    pub age: Duration,
    /// How long it is still replayed.
    pub retention_remaining: Duration,
}

impl Replayed {
    pub(super) const fn new(answer: Answer, replay: &Replay) -> Self {
        Self {
            answer,
            attempt: replay.attempt,
            age: replay.age,
            retention_remaining: replay.retention_remaining,
        }
    }
}

/// An operation that is done, and whose answer was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotKept {
    /// Why.
    pub reason: NotKeptReason,
    /// The attempt that completed.
    pub attempt: AttemptNumber,
    /// Time since completion.
    pub age: Duration,
}

/// What became of a completion.
#[derive(Debug)]
#[must_use = "an answer that is not stored can lead to a second execution"]
pub enum Recorded {
    /// The answer is stored and will be replayed.
    Stored,
    /// It is stored that the operation is done; the answer was not kept.
    NotKept,
    /// The answer is stored, after the record had been lost: a second execution is possible.
    Restored,
    /// Another attempt has the key.
    Lost,
    /// The store did not answer before the lease ended; the answer may be stored.
    Unrecorded(crate::store::StoreError),
    /// The work ran without protection; there was nothing to record in.
    Unprotected,
}
