use super::{Decision, Now, remembered};
use crate::{
    record::{Record, State},
    store::{RenewOutcome, RenewRequest},
};

/// Decides a renewal: C20 to C22.
pub fn renew(
    record: Option<&Record>,
    request: &RenewRequest<'_>,
    now: Now,
) -> Decision<RenewOutcome> {
    let holds =
        |record: &&Record| record.token == request.token && record.attempt == request.attempt;
    let Some(record) = remembered(record, now).filter(holds) else {
        return Decision::keep(RenewOutcome::Lost);
    };
    let State::InProgress { lease_until, sequence, checkpoint } = &record.state else {
        return Decision::keep(RenewOutcome::Lost);
    };
    if request.sequence.get() < *sequence {
        let lease_remaining = lease_until.since(now.at);
        return Decision::keep(RenewOutcome::Held { lease_remaining });
    }
    let lease_until = now.at.after(request.lease.get()).max(*lease_until);
    let record = Record {
        expires_at: lease_until.after(record.retention.get()),
        state: State::InProgress {
            lease_until,
            sequence: request.sequence.get(),
            checkpoint: request.checkpoint.clone().or_else(|| checkpoint.clone()),
        },
        ..record.clone()
    };
    let lease_remaining = lease_until.since(now.at);
    Decision::put(record, RenewOutcome::Held { lease_remaining })
}
