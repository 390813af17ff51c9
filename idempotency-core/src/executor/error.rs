use super::AnswerError;
use crate::{store::StoreError, token::RandomSourceError};

/// Why the executor could not say what became of an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store could not answer. The work was not run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operation is done, and its stored answer cannot be read. The work was not run.
    #[error("the operation is done, but: {0}")]
    Answer(#[from] AnswerError),
    /// No token could be made. The work was not run.
    #[error(transparent)]
    Random(#[from] RandomSourceError),
    /// The claim was lost again and again before the work could start. The work was not run.
    #[error(
        "the claim was lost {tries} times before the work could start: does the store lose records?"
    )]
    KeptLosing {
        /// How often it was claimed.
        tries: u32,
    },
    /// The store answers so slowly that no lease is left to work with. The work was not run.
    #[error(
        "the store takes most of a lease of {lease:?} to answer, so the work was not started: use a longer lease, or find out why the store is slow"
    )]
    StoreTooSlow {
        /// The lease.
        lease: std::time::Duration,
    },
    /// The work was run. It returned a final answer and has joined its attempt to a transaction that was
    /// not committed: what it wrote is not there. The key is released as unknown, or another attempt has
    /// it.
    #[error(
        "the work returned the answer of a transaction that it has not committed: what it wrote is not there"
    )]
    RolledBack,
    /// The store has no operator's verbs.
    #[error("this store cannot settle: it has no operator's verbs")]
    NoAdmin,
}

/// Why an executor cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} of {value:?} does not fit: {rule}")]
pub struct ConfigError {
    pub(super) setting: &'static str,
    pub(super) value: std::time::Duration,
    pub(super) rule: String,
}

/// Why a checkpoint was not saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The attempt no longer holds its key: stop.
    #[error("the attempt no longer holds its key: stop the work")]
    Lost,
    /// The store could not save it. With effect unknown it may be saved.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The attempt runs without protection: there is nowhere to save it.
    #[error("the attempt runs without protection, so there is no record to save a checkpoint in")]
    Unprotected,
}
