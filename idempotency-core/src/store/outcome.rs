use std::{fmt, time::Duration};

use bytes::Bytes;

use crate::attempt_number::AttemptNumber;

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only `Acquired` gives the right to execute"]
pub enum ClaimOutcome {
    /// The caller executes.
    Acquired(Acquired),
    /// It is done; here is the answer.
    Replay(Replay),
    /// Another attempt executes.
    InProgress(Running),
    /// The key stands for another request.
    Mismatch(Mismatch),
    /// The outcome of an earlier attempt is unknown, and the claim refused to take over.
    Abandoned(Abandoned),
}

/// The right to execute.
#[derive(Clone, PartialEq, Eq)]
pub struct Acquired {
    /// 1 for the first execution. More than 1: an earlier attempt may have done the work.
    pub attempt: AttemptNumber,
    /// How much of the lease is left; can be zero when an own token is recognised (C03).
    pub lease_remaining: Duration,
    /// What an earlier attempt left.
    pub checkpoint: Option<Bytes>,
    /// Time since attempt 1 began; zero for attempt 1 itself.
    pub first_attempt_ago: Duration,
}

/// A stored answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Replay {
    /// The exact bytes.
    pub response: Bytes,
    /// The attempt that completed.
    pub attempt: AttemptNumber,
    /// Time since completion.
    pub age: Duration,
    /// How long it is still replayed.
    pub retention_remaining: Duration,
    /// Time since attempt 1 began.
    pub first_attempt_ago: Duration,
}

/// A live claim of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its attempt.
    pub attempt: AttemptNumber,
    /// Since when that attempt runs.
    pub running_for: Duration,
    /// What is left of its lease, unless it is renewed.
    pub lease_remaining: Duration,
}

impl Running {
    /// When it makes sense to ask again: after as long as the attempt has run so far, at least a
    /// second, at most what is left of the lease (and never less than a second).
    pub fn retry_after(&self) -> Duration {
        let second = Duration::from_secs(1);
        self.running_for.clamp(second, self.lease_remaining.max(second))
    }
}

/// The key stands for another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// How the stored fingerprint was made; another version than the caller's can explain it.
    pub stored_version: u8,
}

/// An attempt whose outcome is unknown.
#[derive(Clone, PartialEq, Eq)]
pub struct Abandoned {
    /// Its number.
    pub attempt: AttemptNumber,
    /// Time since its lease ended or it was released as unknown.
    pub since: Duration,
    /// What it, or one before it, left.
    pub checkpoint: Option<Bytes>,
}

/// The answer to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "`Lost` means that the answer was not stored"]
pub enum FinishOutcome {
    /// The answer is stored, by this call or by an earlier one of the same attempt.
    Done,
    /// The record was gone and was stored anew; what happened in between is not known.
    Restored,
    /// Another attempt, or another request, has the key; nothing was stored.
    Lost,
}

/// The answer to renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "`Lost` means that the work must stop"]
pub enum RenewOutcome {
    /// The caller holds the key.
    Held {
        /// How much of the lease is left.
        lease_remaining: Duration,
    },
    /// It does not, and nothing was changed.
    Lost,
}

/// The answer to release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "`Lost` means that another attempt has the key"]
pub enum ReleaseOutcome {
    /// The caller no longer holds the key.
    Released,
    /// It did not hold it, and nothing was changed.
    Lost,
}

/// Shows the length instead of the checkpoint.
impl fmt::Debug for Acquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquired")
            .field("attempt", &self.attempt)
            .field("lease_remaining", &self.lease_remaining)
            .field("checkpoint_bytes", &self.checkpoint.as_ref().map(Bytes::len))
            .field("first_attempt_ago", &self.first_attempt_ago)
            .finish()
    }
}

/// Shows the length instead of the response.
impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("response_bytes", &self.response.len())
            .field("attempt", &self.attempt)
            .field("age", &self.age)
            .field("retention_remaining", &self.retention_remaining)
            .field("first_attempt_ago", &self.first_attempt_ago)
            .finish()
    }
}

/// Shows the length instead of the checkpoint.
impl fmt::Debug for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abandoned")
            .field("attempt", &self.attempt)
            .field("since", &self.since)
            .field("checkpoint_bytes", &self.checkpoint.as_ref().map(Bytes::len))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_stays_between_a_second_and_the_lease() {
        let retry_after = |running_for: u64, lease_remaining: u64| {
            let (running_for, lease_remaining) =
                (Duration::from_millis(running_for), Duration::from_millis(lease_remaining));
            let running = Running { attempt: AttemptNumber::FIRST, running_for, lease_remaining };
            running.retry_after().as_millis()
        };
        assert_eq!(retry_after(0, 30_000), 1_000);
        assert_eq!(retry_after(5_000, 30_000), 5_000);
        assert_eq!(retry_after(50_000, 30_000), 30_000);
        assert_eq!(retry_after(5_000, 10), 1_000);
    }
}
