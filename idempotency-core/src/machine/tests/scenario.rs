//! What stands in the store, what is asked, and when. Plain numbers, so that the oracle needs none of
//! the machine's helpers. Milliseconds throughout.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    AttemptNumber, ClaimToken, Fingerprint, Record, Release, ReleaseReason, Retention, State,
    Takeover, Timestamp,
};

pub(super) const FIRST_CLAIMED: u64 = 1_000_000;
pub(super) const CLAIMED: u64 = 2_000_000;
/// When the record was released or completed.
pub(super) const MOVED: u64 = CLAIMED + 300;
pub(super) const LEASE_END: u64 = CLAIMED + 1_000;
pub(super) const RETENTION: u64 = 60_000;
pub(super) const SEQUENCE: u64 = 5;
/// Of the claim that left the record, and of another one.
pub(super) const TOKENS: [u8; 2] = [7, 8];
/// Of the request that the record stands for, and of another one (another version too).
pub(super) const FINGERPRINTS: [u8; 2] = [1, 2];

pub(super) const ASKED_LEASE: u64 = 700;
pub(super) const ASKED_RETENTION: u64 = 9_000;
pub(super) const OLD_CHECKPOINT: &[u8] = b"old checkpoint";
pub(super) const NEW_CHECKPOINT: &[u8] = b"new";
pub(super) const OLD_RESPONSE: &[u8] = b"first answer";
pub(super) const NEW_RESPONSE: &[u8] = b"another answer";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Absent,
    InProgress,
    Failed,
    Unknown,
    Completed,
    Unused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Completed,
    Failed,
    NotStarted,
}

/// Whom an operation names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub(super) token: u8,
    pub(super) attempt: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    Claim { token: u8, fingerprint: u8, takeover: Takeover },
    Complete { who: Who, fingerprint: u8 },
    Renew { who: Who, sequence: u64, lease: u64, checkpoint: Option<&'static [u8]> },
    Release { who: Who, release: Release },
    Lookup,
    List,
    Settle { who: Who, outcome: Outcome },
    Remove { who: Who },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) attempt: u32,
    pub(super) checkpoint: Option<&'static [u8]>,
    pub(super) skew: u64,
    pub(super) now: u64,
    pub(super) ask: Ask,
}

impl Case {
    /// When attempt 1 of the stored record began.
    pub(super) fn first_claimed(&self) -> u64 {
        if self.attempt == 1 { CLAIMED } else { FIRST_CLAIMED }
    }

    /// The last moment at which the stored record counts.
    pub(super) fn retention_end(&self) -> u64 {
        match self.kind {
            Kind::Absent | Kind::Unused => LEASE_END,
            Kind::InProgress => LEASE_END + RETENTION,
            Kind::Failed | Kind::Unknown | Kind::Completed => MOVED + RETENTION,
        }
    }

    pub(super) fn stored(&self) -> Option<Record> {
        let checkpoint = self.checkpoint.map(Bytes::from_static);
        let released =
            |reason| State::Released { reason, at: moment(MOVED), checkpoint: checkpoint.clone() };
        let state = match self.kind {
            Kind::Absent => return None,
            Kind::InProgress => {
                State::InProgress { lease_until: moment(LEASE_END), sequence: SEQUENCE, checkpoint }
            }
            Kind::Failed => released(ReleaseReason::Failed),
            Kind::Unknown => released(ReleaseReason::Unknown),
            Kind::Completed => {
                State::Completed { at: moment(MOVED), response: Bytes::from_static(OLD_RESPONSE) }
            }
            Kind::Unused => State::Unused,
        };
        Some(Record {
            fingerprint: fingerprint(FINGERPRINTS[0]),
            token: token(TOKENS[0]),
            attempt: attempt(self.attempt),
            retention: Retention::new(span(RETENTION)).unwrap(),
            first_claimed_at: moment(self.first_claimed()),
            claimed_at: moment(CLAIMED),
            expires_at: moment(self.retention_end()),
            state,
        })
    }
}

pub(super) fn moment(millis: u64) -> Timestamp {
    Timestamp::from_unix_millis(millis)
}

pub(super) fn span(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn attempt(number: u32) -> AttemptNumber {
    AttemptNumber::new(number).unwrap()
}

pub(super) fn token(name: u8) -> ClaimToken {
    ClaimToken::from_stored_bytes([name; 16])
}

/// The version of the fingerprint is its name, so that a mismatch can be seen to report the stored one.
pub(super) fn fingerprint(name: u8) -> Fingerprint {
    Fingerprint::from_stored_bytes([name; 33])
}
