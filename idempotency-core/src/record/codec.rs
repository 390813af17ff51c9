//! The binary form of a record, for stores that keep bytes. Format 1, numbers big-endian:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `IDEM` |
//! | 4 | 1 | format, 1 |
//! | 5 | 1 | state: 0 in progress, 1 released as failed, 2 as unknown, 3 completed, 4 unused |
//! | 6 | 16 | name of the key: SHA-256 of its storage key, cut |
//! | 22 | 33 | fingerprint |
//! | 55 | 16 | token |
//! | 71 | 4 | attempt |
//! | 75 | 8 | retention, ms |
//! | 83 | 8 | first claimed at, ms since the Unix epoch, as all moments |
//! | 91 | 8 | claimed at |
//! | 99 | 8 | expires at |
//! | 107 | 8 | lease until, released at or completed at; unused: claimed at again |
//! | 115 | 8 | in progress: sequence of the last renewal; otherwise 0 |
//! | 123 | 1 | 1 when a checkpoint or a response follows |
//! | 124 | 4 | its length n |
//! | 128 | n | checkpoint or response |
//! | 128 + n | 8 | checksum: SHA-256 of all before, cut |

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use sha2::{Digest, Sha256};

use super::{CorruptRecord, Record, ReleaseReason, State};
use crate::{
    attempt_number::AttemptNumber,
    fingerprint::Fingerprint,
    key::StorageKey,
    time::{Retention, Timestamp},
    token::ClaimToken,
};

const MAGIC: &[u8; 4] = b"IDEM";
const FORMAT: u8 = 1;
const HEADER: usize = 128;
const CHECKSUM: usize = 8;

impl Record {
    /// Bytes that [`encode`](Self::encode) adds to a checkpoint or a response.
    pub const OVERHEAD_BYTES: usize = HEADER + CHECKSUM;

    /// The binary form, format 1. It names the key, so that it cannot be taken for another's (C35).
    ///
    /// Checkpoints and responses are limited by the store's profile; longer than 4 GiB they cannot
    /// be represented, and are cut off from every store long before.
    pub fn encode(&self, key: &StorageKey) -> Bytes {
        let (state, moment, sequence, payload) = match &self.state {
            State::InProgress { lease_until, sequence, checkpoint } => {
                (0, *lease_until, *sequence, checkpoint.as_ref())
            }
            State::Released { reason: ReleaseReason::Failed, at, checkpoint } => {
                (1, *at, 0, checkpoint.as_ref())
            }
            State::Released { reason: ReleaseReason::Unknown, at, checkpoint } => {
                (2, *at, 0, checkpoint.as_ref())
            }
            State::Completed { at, response } => (3, *at, 0, Some(response)),
            State::Unused => (4, self.claimed_at, 0, None),
        };
        let length = payload.map_or(0, Bytes::len);
        let mut out = BytesMut::with_capacity(HEADER + length + CHECKSUM);
        out.put_slice(MAGIC);
        out.put_u8(FORMAT);
        out.put_u8(state);
        out.put_slice(&name_of(key));
        out.put_slice(&self.fingerprint.to_stored_bytes());
        out.put_slice(self.token.as_bytes());
        out.put_u32(self.attempt.get());
        out.put_u64(millis(self.retention.get()));
        for moment in [self.first_claimed_at, self.claimed_at, self.expires_at, moment] {
            out.put_u64(moment.as_unix_millis());
        }
        out.put_u64(sequence);
        out.put_u8(u8::from(payload.is_some()));
        out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        if let Some(payload) = payload {
            out.put_slice(payload);
        }
        let checksum = checksum(&out);
        out.put_slice(&checksum);
        out.freeze()
    }

    /// Reads what [`encode`](Self::encode) wrote for `key`. A response shares the memory of `stored`.
    ///
    /// # Errors
    /// Anything else. Never panics, whatever the bytes.
    pub fn decode(stored: &Bytes, key: &StorageKey) -> Result<Self, CorruptRecord> {
        let mut header = Header::checked(stored)?;
        let state = header.u8();
        if header.array::<16>() != name_of(key) {
            return Err(CorruptRecord::OtherKey);
        }
        let fingerprint = Fingerprint::from_stored_bytes(header.array());
        let token = ClaimToken::from_stored_bytes(header.array());
        let attempt = AttemptNumber::new(header.u32()).ok_or(field("attempt"))?;
        let retention =
            Retention::new(Duration::from_millis(header.u64())).map_err(|_| field("retention"))?;
        let [first_claimed_at, claimed_at, expires_at, moment] =
            [(); 4].map(|()| Timestamp::from_unix_millis(header.u64()));
        let sequence = header.u64();
        let payload = match (header.u8(), header.u32()) {
            (0, 0) => None,
            (1, _) => Some(stored.slice(HEADER..stored.len() - CHECKSUM)),
            _ => return Err(field("payload mark")),
        };
        if state != 0 && sequence != 0 {
            return Err(field("sequence"));
        }
        let state = match (state, payload) {
            (0, checkpoint) => State::InProgress { lease_until: moment, sequence, checkpoint },
            (1 | 2, checkpoint) => {
                let reason =
                    if state == 1 { ReleaseReason::Failed } else { ReleaseReason::Unknown };
                State::Released { reason, at: moment, checkpoint }
            }
            (3, Some(response)) => State::Completed { at: moment, response },
            (4, None) if moment == claimed_at => State::Unused,
            _ => return Err(field("state")),
        };
        Ok(Self {
            fingerprint,
            token,
            attempt,
            retention,
            first_claimed_at,
            claimed_at,
            expires_at,
            state,
        })
    }
}

const fn field(field: &'static str) -> CorruptRecord {
    CorruptRecord::Field { field }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn name_of(key: &StorageKey) -> [u8; 16] {
    cut(key.as_str().as_bytes())
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    cut(bytes)
}

/// The first `N` bytes of the SHA-256 of `bytes`.
fn cut<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let digest = <[u8; 32]>::from(Sha256::digest(bytes));
    digest.first_chunk().copied().unwrap_or([0; N])
}

/// The fields behind magic and format, of a record whose length and checksum are right.
struct Header<'a>(&'a [u8]);

impl<'a> Header<'a> {
    fn checked(stored: &'a Bytes) -> Result<Self, CorruptRecord> {
        let rest = stored.strip_prefix(MAGIC).ok_or(CorruptRecord::Foreign)?;
        let (format, rest) = rest.split_first().ok_or(CorruptRecord::Foreign)?;
        if *format == 0 {
            return Err(field("format"));
        }
        if *format > FORMAT {
            return Err(CorruptRecord::FutureVersion { found: *format, known: FORMAT });
        }
        let short = CorruptRecord::Length { found: stored.len(), expected: Record::OVERHEAD_BYTES };
        let mut length = stored.get(HEADER - 4..HEADER).ok_or(short)?;
        let expected = Record::OVERHEAD_BYTES.saturating_add(length.get_u32() as usize);
        if stored.len() != expected {
            return Err(CorruptRecord::Length { found: stored.len(), expected });
        }
        let (body, sum) = stored.split_at(stored.len() - CHECKSUM);
        if sum != checksum(body) {
            return Err(CorruptRecord::Checksum);
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
}

#[cfg(test)]
#[path = "codec_fuzz.rs"]
mod fuzz;
#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
