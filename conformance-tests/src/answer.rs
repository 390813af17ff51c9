//! Answers without their durations, so that a store's can be compared with the machine's.

use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ClaimToken, ErrorKind, Fingerprint, FinishOutcome, Record,
    ReleaseOutcome, ReleaseReason, RenewOutcome, State, StoreError,
};

/// What any operation answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Acquired(AttemptNumber, Option<Bytes>),
    Replay(AttemptNumber, Bytes),
    InProgress(AttemptNumber),
    Mismatch(u8),
    Abandoned(AttemptNumber, Option<Bytes>),
    TokenSpent,
    Finish(FinishOutcome),
    Held,
    RenewLost,
    Release(ReleaseOutcome),
    Found(Option<Seen>),
}

/// A record without its moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    fingerprint: Fingerprint,
    token: ClaimToken,
    attempt: AttemptNumber,
    state: SeenState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SeenState {
    InProgress(u64, Option<Bytes>),
    Released(ReleaseReason, Option<Bytes>),
    Completed(Bytes),
    Unused,
}

impl Answer {
    /// A refusal of a spent token is an answer; any other error is none.
    pub(crate) fn of_claim(claimed: Result<ClaimOutcome, StoreError>) -> Result<Self, StoreError> {
        match claimed {
            Ok(outcome) => Ok(outcome.into()),
            Err(error) if error.kind() == ErrorKind::TokenSpent => Ok(Self::TokenSpent),
            Err(error) => Err(error),
        }
    }
}

impl From<ClaimOutcome> for Answer {
    fn from(outcome: ClaimOutcome) -> Self {
        match outcome {
            ClaimOutcome::Acquired(it) => Self::Acquired(it.attempt, it.checkpoint),
            ClaimOutcome::Replay(it) => Self::Replay(it.attempt, it.response),
            ClaimOutcome::InProgress(it) => Self::InProgress(it.attempt),
            ClaimOutcome::Mismatch(it) => Self::Mismatch(it.stored_version),
            ClaimOutcome::Abandoned(it) => Self::Abandoned(it.attempt, it.checkpoint),
        }
    }
}

impl From<FinishOutcome> for Answer {
    fn from(outcome: FinishOutcome) -> Self {
        Self::Finish(outcome)
    }
}

impl From<RenewOutcome> for Answer {
    fn from(outcome: RenewOutcome) -> Self {
        match outcome {
            RenewOutcome::Held { .. } => Self::Held,
            RenewOutcome::Lost => Self::RenewLost,
        }
    }
}

impl From<ReleaseOutcome> for Answer {
    fn from(outcome: ReleaseOutcome) -> Self {
        Self::Release(outcome)
    }
}

impl From<Option<&Record>> for Answer {
    fn from(record: Option<&Record>) -> Self {
        Self::Found(record.map(Seen::from))
    }
}

impl From<&Record> for Seen {
    fn from(record: &Record) -> Self {
        let state = match record.state.clone() {
            State::InProgress { sequence, checkpoint, .. } => {
                SeenState::InProgress(sequence, checkpoint)
            }
            State::Released { reason, checkpoint, .. } => SeenState::Released(reason, checkpoint),
            State::Completed { response, .. } => SeenState::Completed(response),
            State::Unused => SeenState::Unused,
        };
        let Record { fingerprint, token, attempt, .. } = *record;
        Self { fingerprint, token, attempt, state }
    }
}
