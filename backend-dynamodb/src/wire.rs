//! Records as items, and back.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimToken, CorruptRecord, Fingerprint, Record, ReleaseReason, Retention, State,
    StorageKey, Timestamp,
};

use crate::layout::{Attribute, Layout};

pub(crate) type Item = HashMap<String, AttributeValue>;

/// The format of the items that this release writes and reads.
pub(crate) const FORMAT: u8 = 1;

/// Partitions of the list index that a namespace is spread over: one partition takes 1 000 writes a
/// second.
pub(crate) const SHARDS: u8 = 16;

pub(crate) const IN_PROGRESS: &str = "in_progress";
pub(crate) const FAILED: &str = "failed";
pub(crate) const UNKNOWN: &str = "unknown";
pub(crate) const COMPLETED: &str = "completed";
pub(crate) const UNUSED: &str = "unused";

pub(crate) fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(crate) fn number(number: impl std::fmt::Display + Copy) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(crate) fn moment(moment: Timestamp) -> AttributeValue {
    number(moment.as_unix_millis())
}

pub(crate) fn binary(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

pub(crate) fn millis(duration: Duration) -> AttributeValue {
    number(duration.as_millis())
}

/// In whole seconds, rounded up.
pub(crate) fn seconds(duration: Duration) -> AttributeValue {
    number(duration.as_millis().div_ceil(1_000))
}

/// When the service may delete what expires at `expires_at`, in seconds since the Unix epoch, rounded
/// up: later than it expires on the clock of whoever is latest.
pub(crate) fn delete_after(expires_at: Timestamp, skew_bound: Duration) -> AttributeValue {
    number(expires_at.after(skew_bound.saturating_mul(2)).as_unix_millis().div_ceil(1_000))
}

pub(crate) const fn state(state: &State) -> &'static str {
    match state {
        State::InProgress { .. } => IN_PROGRESS,
        State::Released { reason: ReleaseReason::Failed, .. } => FAILED,
        State::Released { reason: ReleaseReason::Unknown, .. } => UNKNOWN,
        State::Completed { .. } => COMPLETED,
        State::Unused => UNUSED,
    }
}

/// The partition of the list index that a record belongs to while it has no outcome.
pub(crate) fn shard(namespace: &str, shard: u8) -> String {
    format!("{namespace}#{shard:x}")
}

fn shard_of(namespace: &str, place: &StorageKey) -> String {
    // FNV-1a, mixed once more: all that matters is that keys spread
    let hash = place.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 33;
    shard(namespace, u8::try_from(mixed % u64::from(SHARDS)).unwrap_or_default())
}

/// What items are made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) namespace: &'a str,
    pub(crate) skew_bound: Duration,
}

impl Writer<'_> {
    /// The item that keeps `record` at `place`.
    pub(crate) fn item(self, place: &StorageKey, record: &Record) -> Item {
        let mut item = Item::with_capacity(20);
        item.extend(self.layout.key(place));
        let mut put = |attribute, value| {
            item.insert(self.layout.name(attribute).to_owned(), value);
        };
        put(Attribute::Format, number(FORMAT));
        put(Attribute::State, text(state(&record.state)));
        put(Attribute::Token, binary(*record.token.as_bytes()));
        put(Attribute::Attempt, number(record.attempt.get()));
        put(Attribute::Fingerprint, binary(record.fingerprint.to_stored_bytes()));
        put(Attribute::RetentionMs, millis(record.retention.get()));
        put(Attribute::RetentionS, seconds(record.retention.get()));
        put(Attribute::FirstClaimedAt, moment(record.first_claimed_at));
        put(Attribute::ClaimedAt, moment(record.claimed_at));
        put(Attribute::ExpiresAt, moment(record.expires_at));
        put(Attribute::DeleteAfter, delete_after(record.expires_at, self.skew_bound));
        let checkpoint = match &record.state {
            State::InProgress { lease_until, sequence, checkpoint } => {
                put(Attribute::LeaseUntil, moment(*lease_until));
                put(Attribute::Sequence, number(*sequence));
                checkpoint.as_ref()
            }
            State::Released { at, checkpoint, .. } => {
                put(Attribute::EndedAt, moment(*at));
                checkpoint.as_ref()
            }
            State::Completed { at, response } => {
                put(Attribute::EndedAt, moment(*at));
                put(Attribute::Response, binary(response.clone()));
                return item;
            }
            State::Unused => return item,
        };
        if let Some(checkpoint) = checkpoint {
            put(Attribute::Checkpoint, binary(checkpoint.clone()));
        }
        if self.layout.index.is_some() {
            put(Attribute::Unsettled, text(shard_of(self.namespace, place)));
        }
        item
    }
}

/// The storage key that an item names.
pub(crate) fn place_of<'a>(layout: &Layout, item: &'a Item) -> Option<&'a str> {
    item.get(&layout.partition_key)?.as_s().ok().map(String::as_str)
}

/// Reads an item whose key the caller has looked at. Its response, or its checkpoint, is taken out of it: that
/// shares no memory with anything else.
///
/// # Errors
/// It was not written by a release that this one understands.
pub(crate) fn record(layout: &Layout, item: &mut Item) -> Result<Record, CorruptRecord> {
    let mut fields = Fields { layout, item };
    match fields.number::<u64>(Attribute::Format) {
        Err(_) | Ok(None | Some(0)) => return Err(CorruptRecord::Foreign),
        Ok(Some(format)) if format == u64::from(FORMAT) => {}
        Ok(Some(found)) => {
            let found = u8::try_from(found).unwrap_or(u8::MAX);
            return Err(CorruptRecord::FutureVersion { found, known: FORMAT });
        }
    }
    let retention = Duration::from_millis(fields.whole(Attribute::RetentionMs)?);
    Ok(Record {
        fingerprint: Fingerprint::from_stored_bytes(fields.array(Attribute::Fingerprint)?),
        token: ClaimToken::from_stored_bytes(fields.array(Attribute::Token)?),
        attempt: AttemptNumber::new(fields.needed(Attribute::Attempt)?)
            .ok_or(damaged(Attribute::Attempt))?,
        retention: Retention::new(retention).map_err(|_| damaged(Attribute::RetentionMs))?,
        first_claimed_at: fields.moment(Attribute::FirstClaimedAt)?,
        claimed_at: fields.moment(Attribute::ClaimedAt)?,
        expires_at: fields.moment(Attribute::ExpiresAt)?,
        state: fields.state()?,
    })
}

struct Fields<'a> {
    layout: &'a Layout,
    item: &'a mut Item,
}

impl Fields<'_> {
    fn state(&mut self) -> Result<State, CorruptRecord> {
        let checkpoint = self.payload(Attribute::Checkpoint)?;
        let response = self.payload(Attribute::Response)?;
        let state = self.get(Attribute::State).and_then(|value| value.as_s().ok());
        match (state.map(String::as_str), checkpoint, response) {
            (Some(IN_PROGRESS), checkpoint, None) => Ok(State::InProgress {
                lease_until: self.moment(Attribute::LeaseUntil)?,
                sequence: self.whole(Attribute::Sequence)?,
                checkpoint,
            }),
            (Some(word @ (FAILED | UNKNOWN)), checkpoint, None) => Ok(State::Released {
                reason: if word == FAILED { ReleaseReason::Failed } else { ReleaseReason::Unknown },
                at: self.moment(Attribute::EndedAt)?,
                checkpoint,
            }),
            (Some(COMPLETED), None, Some(response)) => {
                Ok(State::Completed { at: self.moment(Attribute::EndedAt)?, response })
            }
            (Some(UNUSED), None, None) => Ok(State::Unused),
            _ => Err(damaged(Attribute::State)),
        }
    }

    fn get(&self, attribute: Attribute) -> Option<&AttributeValue> {
        self.item.get(self.layout.name(attribute))
    }

    fn number<N: std::str::FromStr>(
        &self,
        attribute: Attribute,
    ) -> Result<Option<N>, CorruptRecord> {
        let Some(value) = self.get(attribute) else {
            return Ok(None);
        };
        let number = value.as_n().ok().and_then(|number| number.parse().ok());
        number.map(Some).ok_or(damaged(attribute))
    }

    fn needed<N: std::str::FromStr>(&self, attribute: Attribute) -> Result<N, CorruptRecord> {
        self.number(attribute)?.ok_or(damaged(attribute))
    }

    /// A number that is not negative, without its fraction. No release writes one; but no condition can tell
    /// that there is one either, and what an update would write over has to be readable.
    fn whole(&self, attribute: Attribute) -> Result<u64, CorruptRecord> {
        let number = self.get(attribute).and_then(|value| value.as_n().ok());
        number.and_then(|number| whole(number)).ok_or(damaged(attribute))
    }

    fn moment(&self, attribute: Attribute) -> Result<Timestamp, CorruptRecord> {
        self.whole(attribute).map(Timestamp::from_unix_millis)
    }

    fn payload(&mut self, attribute: Attribute) -> Result<Option<Bytes>, CorruptRecord> {
        match self.item.remove(self.layout.name(attribute)) {
            None => Ok(None),
            Some(AttributeValue::B(blob)) => Ok(Some(Bytes::from(blob.into_inner()))),
            Some(_) => Err(damaged(attribute)),
        }
    }

    fn array<const N: usize>(&self, attribute: Attribute) -> Result<[u8; N], CorruptRecord> {
        let bytes = self.get(attribute).and_then(|value| value.as_b().ok());
        let bytes = bytes.and_then(|bytes| bytes.as_ref().try_into().ok());
        bytes.ok_or(damaged(attribute))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "its bounds are looked at, and what is left out is the fraction"
)]
fn whole(number: &str) -> Option<u64> {
    if let Ok(number) = number.parse() {
        return Some(number);
    }
    let number: f64 = number.parse().ok()?;
    (0.0..u64::MAX as f64).contains(&number).then_some(number as u64)
}

/// Whether the answer was stored by a transaction of the application's. An item that is written as a whole,
/// as by an operator, does not say so.
pub(crate) fn is_joined(layout: &Layout, item: &Item) -> bool {
    item.get(layout.name(Attribute::Joined)) == Some(&AttributeValue::Bool(true))
}

const fn damaged(attribute: Attribute) -> CorruptRecord {
    CorruptRecord::Field { field: attribute.default_name() }
}

#[cfg(test)]
mod tests;
