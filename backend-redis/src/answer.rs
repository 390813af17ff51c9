//! What the server replied, read as an answer. Pure.

use std::time::Duration;

use bytes::{Buf, Bytes};
use idempotency_core::{
    Acquired, AttemptNumber, ClaimOutcome, ClaimRequest, CorruptRecord, ErrorKind, FinishOutcome,
    Operation, Record, ReleaseOutcome, RemoveOutcome, RenewOutcome, SettleOutcome, StoreError,
    Timestamp,
    machine::{self, Decision, Write},
};
use redis::Value;

use crate::wire::{self, Name};

/// Any moment does for a decision: far from both ends of time.
const SOME_MOMENT: Timestamp = Timestamp::from_unix_millis(1 << 52);

/// What the hot path of a claim says.
#[derive(Debug)]
pub(crate) enum Hot {
    /// The answer, and nothing was to be written but what was.
    Answer(ClaimOutcome),
    /// A script has to decide: the key may be there to be taken over, or the attempt is this claim's own.
    AskTheScript,
}

/// The replies to `SET … NX GET PX` and `PTTL`.
///
/// The two are not one step: the time left may be that of a newer record. It can only make an answer
/// "in progress" of what was just taken over or given back, or send the claim to the script. So an own token
/// is for the script as well: the lease that is left decides what its owner does.
pub(crate) fn hot_claim(
    request: &ClaimRequest<'_>,
    name: Name,
    [set, left]: [Value; 2],
) -> Result<Hot, StoreError> {
    let value = match set {
        Value::Nil => return Ok(Hot::Answer(first_attempt(request))),
        Value::BulkString(value) => Bytes::from(value),
        other => return Err(unexpected(Operation::Claim, &other)),
    };
    let left = match left {
        Value::Int(left) => left,
        other => return Err(unexpected(Operation::Claim, &other)),
    };
    // it ended between the two: it was there when the claim was decided
    let left = if left == -2 { 0 } else { left };
    let decision = decide(request, name, &value, left)?;
    Ok(match (decision.write, decision.answer) {
        (Write::Put(_), _) | (Write::Keep, ClaimOutcome::Acquired(_)) => Hot::AskTheScript,
        (Write::Keep, answer) => Hot::Answer(answer),
    })
}

fn first_attempt(request: &ClaimRequest<'_>) -> ClaimOutcome {
    ClaimOutcome::Acquired(Acquired {
        attempt: AttemptNumber::FIRST,
        lease_remaining: request.lease.get(),
        checkpoint: None,
        first_attempt_ago: Duration::ZERO,
    })
}

/// What the script of a claim left there: the record of this claim, or one that stays as it is.
pub(crate) fn claim(
    request: &ClaimRequest<'_>,
    name: Name,
    reply: Value,
) -> Result<ClaimOutcome, StoreError> {
    let (value, left) = match array(Operation::Claim, reply)? {
        [Value::BulkString(value), Value::Int(left)] => (Bytes::from(value), left),
        [other, _] => return Err(unexpected(Operation::Claim, &other)),
    };
    let decision = decide(request, name, &value, left)?;
    match decision.write {
        Write::Keep => Ok(decision.answer),
        Write::Put(_) => Err(disagreement(Operation::Claim)),
    }
}

fn decide(
    request: &ClaimRequest<'_>,
    name: Name,
    value: &Bytes,
    left: i64,
) -> Result<Decision<ClaimOutcome>, StoreError> {
    let corrupt = |cause| StoreError::corrupt(Operation::Claim, cause);
    let left = expiry(left).map_err(corrupt)?;
    let record = wire::decode(value, name, left, SOME_MOMENT).map_err(corrupt)?;
    machine::claim(Some(&record), request, SOME_MOMENT.into())
}

/// What the script of a lookup found.
pub(crate) fn lookup(
    operation: Operation,
    name: Name,
    reply: Value,
) -> Result<Option<(Record, Timestamp)>, StoreError> {
    if reply == Value::Nil {
        return Ok(None);
    }
    let (value, left, ends) = match array(operation, reply)? {
        [Value::BulkString(value), Value::Int(left), Value::Int(ends)] => {
            (Bytes::from(value), left, ends)
        }
        [other, ..] => return Err(unexpected(operation, &other)),
    };
    let corrupt = |cause| StoreError::corrupt(operation, cause);
    let left = expiry(left).map_err(corrupt)?;
    let ends = Timestamp::from_unix_millis(u64::try_from(ends).unwrap_or_default());
    let now = ends.before(left);
    let record = wire::decode(&value, name, left, now).map_err(corrupt)?;
    Ok(Some((record, now)))
}

pub(crate) fn complete(name: Name, reply: Value) -> Result<FinishOutcome, StoreError> {
    if matches!(&reply, Value::BulkString(reply) if *reply == name.0) {
        return Ok(FinishOutcome::Done);
    }
    match outcome(Operation::Complete, name, reply)? {
        (b'R', _) => Ok(FinishOutcome::Restored),
        (b'L', _) => Ok(FinishOutcome::Lost),
        _ => Err(disagreement(Operation::Complete)),
    }
}

pub(crate) fn renew(name: Name, reply: Value) -> Result<RenewOutcome, StoreError> {
    match outcome(Operation::Renew, name, reply)? {
        (b'H', mut rest) if rest.len() == 8 => {
            Ok(RenewOutcome::Held { lease_remaining: Duration::from_millis(rest.get_u64()) })
        }
        (b'L', _) => Ok(RenewOutcome::Lost),
        _ => Err(disagreement(Operation::Renew)),
    }
}

pub(crate) fn release(name: Name, reply: Value) -> Result<ReleaseOutcome, StoreError> {
    match outcome(Operation::Release, name, reply)? {
        (b'R', _) => Ok(ReleaseOutcome::Released),
        (b'L', _) => Ok(ReleaseOutcome::Lost),
        _ => Err(disagreement(Operation::Release)),
    }
}

pub(crate) fn settle(name: Name, reply: Value) -> Result<SettleOutcome, StoreError> {
    match outcome(Operation::Settle, name, reply)? {
        (b'S', _) => Ok(SettleOutcome::Settled),
        (b'A', _) => Ok(SettleOutcome::StillRunning),
        (b'C', _) => Ok(SettleOutcome::Changed),
        _ => Err(disagreement(Operation::Settle)),
    }
}

pub(crate) fn remove(name: Name, reply: Value) -> Result<RemoveOutcome, StoreError> {
    match outcome(Operation::Remove, name, reply)? {
        (b'S', _) => Ok(RemoveOutcome::Removed),
        (b'C', _) => Ok(RemoveOutcome::Changed),
        _ => Err(disagreement(Operation::Remove)),
    }
}

/// Whether a script found the key in progress and marked it.
pub(crate) fn watch(reply: Value) -> Result<bool, StoreError> {
    match reply {
        Value::Int(marked) => Ok(marked == 1),
        other => Err(unreadable(Operation::Watch, &other)),
    }
}

/// A letter, the name of the key that the reply is about, and more. A reply that is about another key
/// was meant for somebody else (C35).
fn outcome(operation: Operation, name: Name, reply: Value) -> Result<(u8, Bytes), StoreError> {
    let reply = match reply {
        Value::BulkString(reply) if !reply.starts_with(b"!") => Bytes::from(reply),
        other => return Err(unreadable(operation, &other)),
    };
    match reply.split_first() {
        Some((letter, rest)) if rest.starts_with(&name.0) => Ok((*letter, reply.slice(17..))),
        _ => {
            let detail = "a reply that is about another key: the connection is out of step";
            Err(StoreError::new(operation, ErrorKind::Corrupt, detail))
        }
    }
}

fn array<const N: usize>(operation: Operation, reply: Value) -> Result<[Value; N], StoreError> {
    match reply {
        Value::Array(parts) => {
            parts.try_into().map_err(|parts: Vec<_>| unexpected(operation, &Value::Array(parts)))
        }
        other => Err(unreadable(operation, &other)),
    }
}

/// What a script says of a record that it cannot read (C00), or something that no script says.
fn unreadable(operation: Operation, reply: &Value) -> StoreError {
    let Value::BulkString(reply) = reply else {
        return unexpected(operation, reply);
    };
    let cause = match reply.as_slice() {
        [b'!', b'F'] => CorruptRecord::Foreign,
        [b'!', b'V', found] => wire::other_format(*found),
        [b'!', b'K'] => CorruptRecord::OtherKey,
        [b'!', b'E'] => wire::field("expiry: it has none"),
        [b'!', b'L', lengths @ ..] => {
            let mut lengths = lengths;
            let mut length = || lengths.try_get_u32().map_or(usize::MAX, |length| length as usize);
            CorruptRecord::Length { found: length(), expected: length() }
        }
        _ => return disagreement(operation),
    };
    StoreError::corrupt(operation, cause)
}

/// No record is without an expiry (C32): where one is, somebody has taken it away, and with it the
/// clock that its lease is measured by.
fn expiry(left: i64) -> Result<Duration, CorruptRecord> {
    let left = u64::try_from(left).map_err(|_| wire::field("expiry: it has none"))?;
    Ok(Duration::from_millis(left))
}

fn unexpected(operation: Operation, reply: &Value) -> StoreError {
    let kind = match reply {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a string",
        Value::Array(_) => "an array",
        _ => "something of another type",
    };
    let detail = format!("the server answered {kind} where something else belongs");
    StoreError::new(operation, ErrorKind::Unexpected, detail)
}

fn disagreement(operation: Operation) -> StoreError {
    let detail = "the script's answer is none that this release knows";
    StoreError::new(operation, ErrorKind::Unexpected, detail)
}

#[cfg(test)]
mod tests;
