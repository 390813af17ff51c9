//! The value of a record, format 1, numbers big-endian, durations in ms:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 3 | `IDR` |
//! | 3 | 1 | format, 1 |
//! | 4 | 16 | name of the key: SHA-256 of its storage key, cut |
//! | 20 | 33 | fingerprint |
//! | 53 | 16 | token |
//! | 69 | 4 | attempt |
//! | 73 | 1 | state: 0 in progress, 1 released as failed, 2 as unknown, 3 completed, 4 unused |
//! | 74 | 1 | 1 when somebody waits for the attempt to end; no part of the record |
//! | 75 | 1 | 1 when there is a checkpoint or a response |
//! | 76 | 4 | its length n |
//! | 80 | 8 | retention |
//! | 88 | 8 | life: the expiry that was set by the last write, from then on |
//! | 96 | 8 | in progress: sequence of the last renewal; otherwise 0 |
//! | 104 | n | checkpoint or response |
//! | 104 + n | 8 | how long this attempt had run at the last write |
//! | 112 + n | 8 | how long ago attempt 1 had begun at the last write |
//!
//! What the client knows comes first and what the server knows last: so a completion appends to what
//! it was sent, and the server's interpreter makes one string less.
//!
//! There is no moment in it. The server's clock is the key's own expiry: life less what is left of it
//! (`PTTL`) is the time since the last write. Of a record in progress the lease is what is left less
//! the retention, of every other one the retention counts from the last write. So nothing else may
//! touch the expiry of these keys, and a clock that is set back makes leases longer, never shorter.
//!
//! There is no checksum: scripts change records where they are, and what the server keeps and sends
//! has checksums of its own.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use idempotency_core::{
    AttemptNumber, ClaimRequest, ClaimToken, CompleteRequest, CorruptRecord, Fingerprint, Record,
    ReleaseReason, Retention, State, Timestamp,
};
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 3] = b"IDR";
const FORMAT: u8 = 1;
/// Bytes before the payload.
const HEADER: usize = 104;
/// Bytes behind it.
const TRAILER: usize = 16;
/// Of a record without a payload.
const SHORTEST: usize = HEADER + TRAILER;

/// Stands for a key in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(pub(crate) [u8; 16]);

impl Name {
    pub(crate) fn of(place: &str) -> Self {
        let digest = <[u8; 32]>::from(Sha256::digest(place));
        Self(digest.first_chunk().copied().unwrap_or_default())
    }

    /// The first 20 bytes of a record of this key.
    pub(crate) fn mark(self) -> [u8; 20] {
        let mut mark = [0; 20];
        let mut out = mark.as_mut_slice();
        out.put_slice(MAGIC);
        out.put_u8(FORMAT);
        out.put_slice(&self.0);
        mark
    }
}

/// Token and attempt, as a record has them.
pub(crate) fn holder(token: ClaimToken, attempt: AttemptNumber) -> [u8; 20] {
    let mut holder = [0; 20];
    let mut out = holder.as_mut_slice();
    out.put_slice(token.as_bytes());
    out.put_u32(attempt.get());
    holder
}

/// The first 73 bytes of a record: everything that does not change while an attempt lives.
pub(crate) fn identity(
    name: Name,
    fingerprint: Fingerprint,
    token: ClaimToken,
    attempt: AttemptNumber,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(SHORTEST);
    put_identity(&mut out, name, fingerprint, token, attempt);
    out
}

fn put_identity(
    out: &mut Vec<u8>,
    name: Name,
    fingerprint: Fingerprint,
    token: ClaimToken,
    attempt: AttemptNumber,
) {
    out.put_slice(&name.mark());
    out.put_slice(&fingerprint.to_stored_bytes());
    out.put_slice(&holder(token, attempt));
}

fn put_payload_mark(out: &mut Vec<u8>, payload: &[u8]) {
    out.put_u8(1);
    // limited by the profile to what fits
    out.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
}

/// The value that a claim writes when there is nothing yet.
pub(crate) fn first_attempt(name: Name, request: &ClaimRequest<'_>) -> Vec<u8> {
    let mut out = identity(name, request.fingerprint, request.token, AttemptNumber::FIRST);
    out.put_bytes(0, 7);
    out.put_u64(millis(request.retention.get()));
    out.put_u64(millis(life_of_claim(request)));
    out.put_bytes(0, 8 + TRAILER);
    out
}

/// The value that a completion writes, without its trailer.
pub(crate) fn completed(name: Name, request: &CompleteRequest<'_>) -> Vec<u8> {
    let response = &request.response;
    let mut out = Vec::with_capacity(HEADER + response.len());
    put_identity(&mut out, name, request.fingerprint, request.token, request.attempt);
    out.put_slice(&[3, 0]);
    put_payload_mark(&mut out, response);
    for _retention_then_life in 0..2 {
        out.put_u64(millis(request.retention.get()));
    }
    out.put_u64(0);
    out.put_slice(response);
    out
}

/// How long a record in progress lives: its lease, and its retention after that (C31).
pub(crate) fn life_of_claim(request: &ClaimRequest<'_>) -> Duration {
    request.lease.get() + request.retention.get()
}

/// Mark, length and bytes of a checkpoint or a response, for a script that puts them where they belong.
pub(crate) fn payload(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(5 + bytes.len());
    put_payload_mark(&mut out, bytes);
    out.put_slice(bytes);
    out
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads the value of the key `name`, of whose life `left` is left at the moment `now`. A response
/// shares the memory of `value`.
///
/// The record's moments are exact for a `now` of the server's clock; a claim is decided by differences
/// alone, so there any `now` does.
pub(crate) fn decode(
    value: &Bytes,
    name: Name,
    left: Duration,
    now: Timestamp,
) -> Result<Record, CorruptRecord> {
    let mut header = Header::checked(value, name)?;
    let fingerprint = Fingerprint::from_stored_bytes(header.array());
    let token = ClaimToken::from_stored_bytes(header.array());
    let attempt = AttemptNumber::new(header.u32()).ok_or(field("attempt"))?;
    let (state, _waited) = (header.u8(), header.u8());
    let payload = match (header.u8(), header.u32()) {
        (0, 0) => None,
        (1, _) => Some(value.slice(HEADER..value.len() - TRAILER)),
        _ => return Err(field("payload mark")),
    };
    let retention = Retention::new(header.millis()).map_err(|_| field("retention"))?;
    let since_write = header.millis().saturating_sub(left);
    let sequence = header.u64();
    let mut trailer = Header(value.get(value.len() - TRAILER..).unwrap_or_default());
    let [claimed_ago, first_ago] = [(); 2].map(|()| trailer.millis().saturating_add(since_write));
    let expires_at = now.after(left);
    let retained_from = expires_at.before(retention.get());
    let state = match (state, payload) {
        (0, checkpoint) => State::InProgress { lease_until: retained_from, sequence, checkpoint },
        _ if sequence != 0 => return Err(field("sequence")),
        (1 | 2, checkpoint) => {
            let reason = if state == 1 { ReleaseReason::Failed } else { ReleaseReason::Unknown };
            State::Released { reason, at: retained_from, checkpoint }
        }
        (3, Some(response)) => State::Completed { at: retained_from, response },
        (4, None) => State::Unused,
        _ => return Err(field("state")),
    };
    Ok(Record {
        fingerprint,
        token,
        attempt,
        retention,
        first_claimed_at: now.before(first_ago),
        claimed_at: now.before(claimed_ago),
        expires_at,
        state,
    })
}

pub(crate) const fn field(field: &'static str) -> CorruptRecord {
    CorruptRecord::Field { field }
}

/// Why a record of the format `found` cannot be read.
pub(crate) const fn other_format(found: u8) -> CorruptRecord {
    if found < FORMAT {
        field("format")
    } else {
        CorruptRecord::FutureVersion { found, known: FORMAT }
    }
}

/// The fields behind the name, of a value whose length is right.
struct Header<'a>(&'a [u8]);

impl<'a> Header<'a> {
    fn checked(value: &'a Bytes, name: Name) -> Result<Self, CorruptRecord> {
        let rest = value.strip_prefix(MAGIC).ok_or(CorruptRecord::Foreign)?;
        let (format, rest) = rest.split_first().ok_or(CorruptRecord::Foreign)?;
        if *format != FORMAT {
            return Err(other_format(*format));
        }
        let found = value.len();
        let short = CorruptRecord::Length { found, expected: SHORTEST };
        if found < SHORTEST {
            return Err(short);
        }
        let mut length = value.get(76..80).ok_or(short)?;
        let (stored_name, rest) = rest.split_first_chunk().ok_or(short)?;
        if *stored_name != name.0 {
            return Err(CorruptRecord::OtherKey);
        }
        let expected = SHORTEST.saturating_add(length.get_u32() as usize);
        if found != expected {
            return Err(CorruptRecord::Length { found, expected });
        }
        Ok(Self(rest))
    }

    /// The length was checked, so the bytes are there.
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (array, rest) = self.0.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.0 = rest;
        *array
    }

    fn u8(&mut self) -> u8 {
        u8::from_be_bytes(self.array())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    fn millis(&mut self) -> Duration {
        Duration::from_millis(self.u64())
    }
}

#[cfg(test)]
mod tests;
