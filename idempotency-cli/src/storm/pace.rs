//! How long things take in a storm.

use std::time::Duration;

/// The times of a storm. Those of clients and services are in the relation in which they are in life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// How long a handler works, on average.
    pub(super) work: Duration,
    /// How long a slow one works.
    pub(super) slow_work: Duration,
    /// How long a client waits for an answer.
    pub(super) client_timeout: Duration,
    /// How late a late request comes.
    pub(super) late: Duration,
    /// Of a claim.
    pub(super) lease: Duration,
    /// When a merchant that knows of no outcome asks again with the same key.
    pub(super) come_back: Duration,
    /// Between two tries of a client, relative to life.
    pub(super) backoff: f64,
}

impl Pace {
    /// In simulated time nobody has to wait.
    pub(super) const fn as_in_life() -> Self {
        Self {
            work: Duration::from_millis(100),
            slow_work: Duration::from_secs(8),
            client_timeout: Duration::from_secs(5),
            late: Duration::from_secs(10),
            lease: Duration::from_secs(30),
            come_back: Duration::from_mins(1),
            backoff: 1.0,
        }
    }

    /// About twenty times as fast. After a crash the store takes `skew_bound` longer to hand the key
    /// over.
    pub(super) fn quick(skew_bound: Duration) -> Self {
        let lease = Duration::from_millis(1_500);
        Self {
            work: Duration::from_millis(4),
            slow_work: Duration::from_millis(400),
            client_timeout: Duration::from_millis(250),
            late: Duration::from_millis(500),
            lease,
            come_back: 2 * (lease + skew_bound),
            backoff: 0.05,
        }
    }
}
