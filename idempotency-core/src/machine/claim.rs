use bytes::Bytes;

use super::{Decision, Now, remembered};
use crate::{
    attempt_number::AttemptNumber,
    record::{Record, ReleaseReason, State},
    store::{
        Abandoned, Acquired, ClaimOutcome, ClaimRequest, Mismatch, Replay, Running, StoreError,
        Takeover,
    },
    time::Timestamp,
};

/// Decides a claim: C01 and C03 to C09; C02 follows from applying decisions one after the other.
///
/// # Errors
/// `TokenSpent` for the token of a released record (C03, C29).
pub fn claim(
    record: Option<&Record>,
    request: &ClaimRequest<'_>,
    now: Now,
) -> Result<Decision<ClaimOutcome>, StoreError> {
    let Some(record) = remembered(record, now) else {
        return Ok(first_attempt(request, now));
    };
    let own = record.token == request.token;
    if record.state == State::Unused {
        return if own { Err(StoreError::token_spent()) } else { Ok(first_attempt(request, now)) };
    }
    if record.fingerprint != request.fingerprint {
        let stored_version = record.fingerprint.version();
        return Ok(Decision::keep(ClaimOutcome::Mismatch(Mismatch { stored_version })));
    }
    let answer = match &record.state {
        State::Completed { at, response } => replay(record, *at, response, now),
        State::Released { .. } if own => return Err(StoreError::token_spent()),
        State::InProgress { lease_until, checkpoint, .. } if own => {
            acquired(record, *lease_until, checkpoint.clone(), now)
        }
        State::InProgress { lease_until, .. } if !now.is_past(*lease_until) => {
            ClaimOutcome::InProgress(Running {
                attempt: record.attempt,
                running_for: now.at.since(record.claimed_at),
                lease_remaining: lease_until.since(now.at),
            })
        }
        State::Released { reason: ReleaseReason::Failed, checkpoint, .. } => {
            return Ok(take_over(record, checkpoint.clone(), request, now));
        }
        State::Released { at: since, checkpoint, .. }
        | State::InProgress { lease_until: since, checkpoint, .. } => match request.takeover {
            Takeover::Allow => return Ok(take_over(record, checkpoint.clone(), request, now)),
            Takeover::Refuse => ClaimOutcome::Abandoned(Abandoned {
                attempt: record.attempt,
                since: now.at.since(*since),
                checkpoint: checkpoint.clone(),
            }),
        },
        State::Unused => return Ok(first_attempt(request, now)),
    };
    Ok(Decision::keep(answer))
}

fn replay(record: &Record, at: Timestamp, response: &Bytes, now: Now) -> ClaimOutcome {
    ClaimOutcome::Replay(Replay {
        response: response.clone(),
        attempt: record.attempt,
        age: now.at.since(at),
        retention_remaining: record.expires_at.since(now.at),
        first_attempt_ago: now.at.since(record.first_claimed_at),
    })
}

fn acquired(
    record: &Record,
    lease_until: Timestamp,
    checkpoint: Option<Bytes>,
    now: Now,
) -> ClaimOutcome {
    ClaimOutcome::Acquired(Acquired {
        attempt: record.attempt,
        lease_remaining: lease_until.since(now.at),
        checkpoint,
        first_attempt_ago: now.at.since(record.first_claimed_at),
    })
}

fn first_attempt(request: &ClaimRequest<'_>, now: Now) -> Decision<ClaimOutcome> {
    begin(request, AttemptNumber::FIRST, now.at, None, now)
}

fn take_over(
    record: &Record,
    checkpoint: Option<Bytes>,
    request: &ClaimRequest<'_>,
    now: Now,
) -> Decision<ClaimOutcome> {
    begin(request, record.attempt.next(), record.first_claimed_at, checkpoint, now)
}

fn begin(
    request: &ClaimRequest<'_>,
    attempt: AttemptNumber,
    first_claimed_at: Timestamp,
    checkpoint: Option<Bytes>,
    now: Now,
) -> Decision<ClaimOutcome> {
    let lease_until = now.at.after(request.lease.get());
    let record = Record {
        fingerprint: request.fingerprint,
        token: request.token,
        attempt,
        retention: request.retention,
        first_claimed_at,
        claimed_at: now.at,
        expires_at: lease_until.after(request.retention.get()),
        state: State::InProgress { lease_until, sequence: 0, checkpoint: checkpoint.clone() },
    };
    let answer = acquired(&record, lease_until, checkpoint, now);
    Decision::put(record, answer)
}
