use super::{Decision, Now, Write, lookup, release::released};
use crate::{
    record::{Record, ReleaseReason, State},
    store::{ListState, RemoveOutcome, SeenClaim, SettleOutcome, Settlement},
};

/// What an operator sees a record in: none past its retention, and none for an unused key.
pub fn list_state(record: &Record, now: Now) -> Option<ListState> {
    lookup(Some(record), now).map(|record| match &record.state {
        State::InProgress { lease_until, .. } if !now.is_past(*lease_until) => {
            ListState::InProgress
        }
        State::Released { reason: ReleaseReason::Failed, .. } => ListState::Failed,
        State::Completed { .. } => ListState::Completed,
        State::InProgress { .. } | State::Released { .. } | State::Unused => ListState::Abandoned,
    })
}

/// Decides an operator's settlement: only an abandoned attempt, only the one that was seen.
pub fn settle(
    record: Option<&Record>,
    seen: SeenClaim,
    settlement: &Settlement,
    now: Now,
) -> Decision<SettleOutcome> {
    let Some(record) = lookup(record, now).filter(|record| SeenClaim::from(*record) == seen) else {
        return Decision::keep(SettleOutcome::Changed);
    };
    match list_state(record, now) {
        Some(ListState::Abandoned) => {}
        Some(ListState::InProgress) => return Decision::keep(SettleOutcome::StillRunning),
        _ => return Decision::keep(SettleOutcome::Changed),
    }
    let settled = match settlement {
        Settlement::Completed { response, retention } => Record {
            retention: *retention,
            expires_at: now.at.after(retention.get()),
            state: State::Completed { at: now.at, response: response.clone() },
            ..record.clone()
        },
        Settlement::Failed => {
            let checkpoint = match &record.state {
                State::InProgress { checkpoint, .. } | State::Released { checkpoint, .. } => {
                    checkpoint.clone()
                }
                State::Completed { .. } | State::Unused => None,
            };
            released(record, ReleaseReason::Failed, checkpoint, now)
        }
        Settlement::NotStarted => unused(record, now),
    };
    Decision::put(settled, SettleOutcome::Settled)
}

/// Decides an operator's removal: only the attempt that was seen, whatever its state.
///
/// The token is remembered for the retention, so that a copy of its claim that arrives late does not
/// hold the key again.
pub fn remove(record: Option<&Record>, seen: SeenClaim, now: Now) -> Decision<RemoveOutcome> {
    match lookup(record, now).filter(|record| SeenClaim::from(*record) == seen) {
        None => Decision::keep(RemoveOutcome::Changed),
        Some(record) => {
            Decision { write: Write::Put(unused(record, now)), answer: RemoveOutcome::Removed }
        }
    }
}

fn unused(record: &Record, now: Now) -> Record {
    Record {
        expires_at: now.at.after(record.retention.get()),
        state: State::Unused,
        ..record.clone()
    }
}
