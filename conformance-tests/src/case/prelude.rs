//! What every module of cases uses.

pub(crate) use std::{sync::Arc, time::Duration};

use idempotency_core::{IdempotencyKey, Record, State};

pub(crate) use crate::{
    caller::{Caller, Renewal},
    failure::{Halt, Holds, Verdict, check, same},
    subject::{LONG, Subject},
};

/// The record of `key`; a failure when there is none.
pub(crate) async fn held_record(t: &Subject, key: &IdempotencyKey) -> Verdict<Record> {
    let record = t.record(key).await?;
    record.ok_or_else(|| Halt::fail("lookup", "a record", "none"))
}

/// The sequence number of a record in progress.
pub(crate) const fn sequence_of(record: &Record) -> Option<u64> {
    match record.state {
        State::InProgress { sequence, .. } => Some(sequence),
        _ => None,
    }
}

/// The checkpoint of a record that can have one.
pub(crate) fn checkpoint_of(record: &Record) -> Option<&[u8]> {
    match &record.state {
        State::InProgress { checkpoint, .. } | State::Released { checkpoint, .. } => {
            checkpoint.as_deref()
        }
        State::Completed { .. } | State::Unused => None,
    }
}

/// Fails unless `low <= got <= high`.
#[track_caller]
pub(crate) fn between(what: &str, got: Duration, low: Duration, high: Duration) -> Verdict {
    let within = Holds(low <= got && got <= high);
    check(what, &format!("{low:?} to {high:?}"), within, got)
}
