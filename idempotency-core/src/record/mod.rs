//! What a store keeps under a key.

mod codec;
mod corrupt;

use std::fmt;

use bytes::Bytes;
pub use corrupt::CorruptRecord;

use crate::{
    attempt_number::AttemptNumber,
    fingerprint::Fingerprint,
    time::{Retention, Timestamp},
    token::ClaimToken,
};

/// What a store keeps under a key.
///
/// Records are made by [`machine`](crate::machine); a backend only keeps them and reads them back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the request that the key stands for.
    pub fingerprint: Fingerprint,
    /// Of the attempt that holds or held the key, or completed it.
    pub token: ClaimToken,
    /// The number of that attempt.
    pub attempt: AttemptNumber,
    /// The claim's retention, or the completion's once there is one (C31).
    pub retention: Retention,
    /// When attempt 1 began.
    pub first_claimed_at: Timestamp,
    /// When this attempt began.
    pub claimed_at: Timestamp,
    /// The last moment at which the record counts (C30).
    pub expires_at: Timestamp,
    /// Where it stands.
    pub state: State,
}

/// Where a [`Record`] stands.
#[derive(Clone, PartialEq, Eq)]
pub enum State {
    /// An attempt holds the key; abandoned once the lease is over.
    InProgress {
        /// The last moment of the lease.
        lease_until: Timestamp,
        /// Of the last renewal that was applied; 0 before the first.
        sequence: u64,
        /// What the attempt, or one before it, left for the next one.
        checkpoint: Option<Bytes>,
    },
    /// Given back by its holder; waits for the next attempt.
    Released {
        /// What the holder said of its work.
        reason: ReleaseReason,
        /// When.
        at: Timestamp,
        /// What the attempt, or one before it, left for the next one.
        checkpoint: Option<Bytes>,
    },
    /// Done: replayed until the retention ends.
    Completed {
        /// When.
        at: Timestamp,
        /// The stored answer.
        response: Bytes,
    },
    /// Given back before any work began. The key is unused for everybody; only the token is
    /// remembered, so that a late copy of its claim does not hold the key again (C29).
    Unused,
}

/// Why a key that is still in progress was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseReason {
    /// The work is known not to have happened.
    Failed,
    /// It may have happened.
    Unknown,
}

/// Shows lengths instead of the checkpoint and the response.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = |bytes: &Option<Bytes>| bytes.as_ref().map(Bytes::len);
        match self {
            Self::InProgress { lease_until, sequence, checkpoint } => f
                .debug_struct("InProgress")
                .field("lease_until", lease_until)
                .field("sequence", sequence)
                .field("checkpoint_bytes", &length(checkpoint))
                .finish(),
            Self::Released { reason, at, checkpoint } => f
                .debug_struct("Released")
                .field("reason", reason)
                .field("at", at)
                .field("checkpoint_bytes", &length(checkpoint))
                .finish(),
            Self::Completed { at, response } => f
                .debug_struct("Completed")
                .field("at", at)
                .field("response_bytes", &response.len())
                .finish(),
            Self::Unused => f.write_str("Unused"),
        }
    }
}
