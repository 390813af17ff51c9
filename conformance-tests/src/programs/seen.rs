use std::{mem::take, time::Duration};

use idempotency_core::{
    ClaimOutcome, ErrorKind, FinishOutcome, Record, ReleaseOutcome, RemoveOutcome, RenewOutcome,
    SettleOutcome, State, StoreError, Timestamp,
};

/// An answer, and the durations of it apart: those are compared with some tolerance.
#[derive(Debug)]
pub(super) struct Seen {
    answer: Answer,
    durations: Vec<Duration>,
}

/// An answer without its durations, or a record without its moments.
#[derive(Debug, PartialEq)]
enum Answer {
    Claim(ClaimOutcome),
    TokenSpent,
    Complete(FinishOutcome),
    Renew(RenewOutcome),
    Release(ReleaseOutcome),
    Lookup(Option<Record>),
    Settle(SettleOutcome),
    Remove(RemoveOutcome),
    Nothing,
}

impl Seen {
    pub(super) const fn nothing() -> Self {
        Self { answer: Answer::Nothing, durations: Vec::new() }
    }

    /// The error `TokenSpent` is an answer of the contract, all others are none.
    pub(super) fn claim(answer: Result<ClaimOutcome, StoreError>) -> Result<Self, StoreError> {
        match answer {
            Ok(outcome) => Ok(outcome.into()),
            Err(error) if error.kind() == ErrorKind::TokenSpent => Ok(Answer::TokenSpent.into()),
            Err(error) => Err(error),
        }
    }

    /// Whether the two are the same but for durations that are off by `tolerance`.
    pub(super) fn agrees(&self, other: &Self, tolerance: Duration) -> bool {
        let mut pairs = self.durations.iter().zip(&other.durations);
        self.answer == other.answer
            && self.durations.len() == other.durations.len()
            && pairs.all(|(one, another)| one.abs_diff(*another) <= tolerance)
    }
}

impl From<Answer> for Seen {
    fn from(answer: Answer) -> Self {
        Self { answer, durations: Vec::new() }
    }
}

impl From<ClaimOutcome> for Seen {
    fn from(mut outcome: ClaimOutcome) -> Self {
        let mut durations = Vec::new();
        let mut apart = |duration: &mut Duration| durations.push(take(duration));
        match &mut outcome {
            ClaimOutcome::Acquired(acquired) => {
                apart(&mut acquired.lease_remaining);
                apart(&mut acquired.first_attempt_ago);
            }
            ClaimOutcome::Replay(replay) => {
                apart(&mut replay.age);
                apart(&mut replay.retention_remaining);
                apart(&mut replay.first_attempt_ago);
            }
            ClaimOutcome::InProgress(running) => {
                apart(&mut running.running_for);
                apart(&mut running.lease_remaining);
            }
            ClaimOutcome::Abandoned(abandoned) => apart(&mut abandoned.since),
            ClaimOutcome::Mismatch(_) => {}
        }
        Self { answer: Answer::Claim(outcome), durations }
    }
}

impl From<RenewOutcome> for Seen {
    fn from(mut outcome: RenewOutcome) -> Self {
        let mut durations = Vec::new();
        if let RenewOutcome::Held { lease_remaining } = &mut outcome {
            durations.push(take(lease_remaining));
        }
        Self { answer: Answer::Renew(outcome), durations }
    }
}

/// Moments are told by how long before the end of the record they are: the two have clocks of their own.
impl From<Option<Record>> for Seen {
    fn from(mut record: Option<Record>) -> Self {
        let mut durations = Vec::new();
        if let Some(record) = &mut record {
            let end = take(&mut record.expires_at);
            let mut apart = |moment: &mut Timestamp| durations.push(end.since(take(moment)));
            apart(&mut record.first_claimed_at);
            apart(&mut record.claimed_at);
            match &mut record.state {
                State::InProgress { lease_until: moment, .. }
                | State::Released { at: moment, .. }
                | State::Completed { at: moment, .. } => apart(moment),
                State::Unused => {}
            }
        }
        Self { answer: Answer::Lookup(record), durations }
    }
}

impl From<FinishOutcome> for Seen {
    fn from(outcome: FinishOutcome) -> Self {
        Answer::Complete(outcome).into()
    }
}

impl From<ReleaseOutcome> for Seen {
    fn from(outcome: ReleaseOutcome) -> Self {
        Answer::Release(outcome).into()
    }
}

impl From<SettleOutcome> for Seen {
    fn from(outcome: SettleOutcome) -> Self {
        Answer::Settle(outcome).into()
    }
}

impl From<RemoveOutcome> for Seen {
    fn from(outcome: RemoveOutcome) -> Self {
        Answer::Remove(outcome).into()
    }
}
