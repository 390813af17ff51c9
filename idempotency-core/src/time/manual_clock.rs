use std::time::Duration;

use tokio::sync::watch;

use super::{Clock, Sleep, Timestamp};

/// A clock that stands still until it is told to advance. For tests.
///
/// Clones show the same time. Sleepers wake when the clock is advanced past their deadline.
///
/// ```
/// use std::time::Duration;
/// use idempotency_core::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(3));
/// assert_eq!(clock.now().since(before), Duration::from_secs(3));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    elapsed: watch::Sender<Duration>,
}

/// 2020-01-01T00:00:00Z: any moment would do, a plausible one reads better in failures.
const START: Timestamp = Timestamp::from_unix_millis(1_577_836_800_000);

impl ManualClock {
    /// A clock that stands at its start.
    pub fn new() -> Self {
        Self { elapsed: watch::Sender::new(Duration::ZERO) }
    }

    /// Moves the clock forward and wakes the sleepers whose time has come.
    pub fn advance(&self, by: Duration) {
        self.elapsed.send_modify(|elapsed| *elapsed = elapsed.saturating_add(by));
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        START.after(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        *self.elapsed.borrow()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let deadline = self.monotonic().saturating_add(duration);
        let mut elapsed = self.elapsed.subscribe();
        Box::pin(async move {
            // the error means that the clock is gone: nothing can wake the sleeper any more
            if elapsed.wait_for(|elapsed| *elapsed >= deadline).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
