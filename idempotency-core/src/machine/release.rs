use super::{Decision, Now, remembered};
use crate::{
    attempt_number::AttemptNumber,
    record::{Record, ReleaseReason, State},
    store::{Release, ReleaseOutcome, ReleaseRequest},
};

/// Decides a release: C25 to C29.
pub fn release(
    record: Option<&Record>,
    request: &ReleaseRequest<'_>,
    now: Now,
) -> Decision<ReleaseOutcome> {
    let known = remembered(record, now).filter(|record| record.state != State::Unused);
    let Some(record) = known else {
        return Decision::keep(ReleaseOutcome::Released);
    };
    if record.token != request.token || record.attempt != request.attempt {
        return Decision::keep(ReleaseOutcome::Lost);
    }
    let State::InProgress { lease_until, checkpoint, .. } = &record.state else {
        let outcome = match record.state {
            State::Completed { .. } => ReleaseOutcome::Lost,
            _ => ReleaseOutcome::Released,
        };
        return Decision::keep(outcome);
    };
    let reason = match request.release {
        Release::NotStarted if record.attempt == AttemptNumber::FIRST => {
            // the token is remembered for what is left of its lease, the rest is forgotten
            let expires_at = (*lease_until).max(now.at);
            let record = Record { expires_at, state: State::Unused, ..record.clone() };
            return Decision::put(record, ReleaseOutcome::Released);
        }
        Release::NotStarted | Release::Failed => ReleaseReason::Failed,
        Release::Unknown => ReleaseReason::Unknown,
    };
    Decision::put(released(record, reason, checkpoint.clone(), now), ReleaseOutcome::Released)
}

/// The record, given back now and kept for its retention.
pub(super) fn released(
    record: &Record,
    reason: ReleaseReason,
    checkpoint: Option<bytes::Bytes>,
    now: Now,
) -> Record {
    Record {
        expires_at: now.at.after(record.retention.get()),
        state: State::Released { reason, at: now.at, checkpoint },
        ..record.clone()
    }
}
