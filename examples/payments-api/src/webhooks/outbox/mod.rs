mod memory;
mod postgres;

use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde::Serialize;

pub(crate) use self::{memory::MemoryOutbox, postgres::PostgresOutbox};
use super::Event;
use crate::ledger::LedgerError;

/// The events, from their effect to their delivery. Each ledger adds them to the outbox beside it, together
/// with the effect: an effect has one event, and a replay, which has no effect, has none.
#[async_trait]
pub(crate) trait Outbox: fmt::Debug + Send + Sync {
    /// Takes waiting events whose time has come, `most` at most, the longest due first.
    ///
    /// They are the caller's for the time `hold`. When that has passed without [`tried`](Self::tried), the
    /// caller is taken for dead, and they are due again.
    async fn take(&self, most: usize, hold: Duration) -> Result<Vec<Taken>, LedgerError>;

    /// What became of a try.
    async fn tried(&self, taken: &Taken, outcome: Outcome) -> Result<(), LedgerError>;

    /// Ends soon after this process has added an event. Events that others have left are found by looking.
    async fn added(&self);

    /// What became of each event, the oldest first.
    async fn deliveries(&self) -> Result<Vec<Delivery>, LedgerError>;

    /// Whether events outlive the process.
    fn is_durable(&self) -> bool;
}

/// An event that nobody else tries to deliver at the moment.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) event: Event,
    /// Its tries, this one included.
    pub(crate) tries: u32,
}

/// What a try came to.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Delivered,
    /// It is tried again after `wait`.
    Failed {
        failure: String,
        wait: Duration,
    },
    /// It failed, and was the last try.
    GivenUp {
        failure: String,
    },
}

/// What became of an event so far.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Delivery {
    id: String,
    pub(super) state: State,
    tries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Waiting,
    Delivered,
    GivenUp,
}

impl Outcome {
    /// The event's state, the wait for its next try, and why it is not delivered.
    fn into_parts(self) -> (State, Duration, Option<String>) {
        match self {
            Self::Delivered => (State::Delivered, Duration::ZERO, None),
            Self::Failed { failure, wait } => (State::Waiting, wait, Some(failure)),
            Self::GivenUp { failure } => (State::GivenUp, Duration::ZERO, Some(failure)),
        }
    }
}
