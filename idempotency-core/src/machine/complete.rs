use super::{Decision, Now, remembered};
use crate::{
    record::{Record, State},
    store::{CompleteRequest, FinishOutcome},
    time::Timestamp,
};

/// Decides a completion: C10 to C14.
pub fn complete(
    record: Option<&Record>,
    request: &CompleteRequest<'_>,
    now: Now,
) -> Decision<FinishOutcome> {
    let known = remembered(record, now).filter(|record| record.state != State::Unused);
    let Some(record) = known else {
        return Decision::put(completed(request, now.at, now.at, now), FinishOutcome::Restored);
    };
    let own = record.token == request.token && record.attempt == request.attempt;
    if !own || record.fingerprint != request.fingerprint {
        return Decision::keep(FinishOutcome::Lost);
    }
    match record.state {
        State::Completed { .. } => Decision::keep(FinishOutcome::Done),
        State::InProgress { .. } | State::Released { .. } | State::Unused => {
            let record = completed(request, record.first_claimed_at, record.claimed_at, now);
            Decision::put(record, FinishOutcome::Done)
        }
    }
}

fn completed(
    request: &CompleteRequest<'_>,
    first_claimed_at: Timestamp,
    claimed_at: Timestamp,
    now: Now,
) -> Record {
    Record {
        fingerprint: request.fingerprint,
        token: request.token,
        attempt: request.attempt,
        retention: request.retention,
        first_claimed_at,
        claimed_at,
        expires_at: now.at.after(request.retention.get()),
        state: State::Completed { at: now.at, response: request.response.clone() },
    }
}
