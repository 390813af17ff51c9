use std::{
    fmt::Debug,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::Timestamp;

/// What [`Clock::sleep`] returns.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The time, as a dependency: everything that waits or looks at the time does it through this.
///
/// Implementations must never step back and must agree with themselves: a sleep of `d` ends when
/// [`monotonic`](Clock::monotonic) has grown by at least `d`.
pub trait Clock: Debug + Send + Sync {
    /// The moment, for the deadlines in records. Grows with [`monotonic`](Clock::monotonic).
    fn now(&self) -> Timestamp;

    /// Time since an origin of the clock's own. Never steps back.
    fn monotonic(&self) -> Duration;

    /// Ends after `duration`.
    fn sleep(&self, duration: Duration) -> Sleep;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn monotonic(&self) -> Duration {
        (**self).monotonic()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        (**self).sleep(duration)
    }
}

/// The machine's clock, as tokio sees it.
///
/// The wall clock is read once, when the value is made; from then on only the monotonic clock
/// counts. Setting the wall clock an hour forward or back moves no deadline. Under
/// `tokio::time::pause` it stands still with tokio's clock, so tests can move it.
#[derive(Clone, Debug)]
pub struct SystemClock {
    origin: tokio::time::Instant,
    origin_wall: Timestamp,
}

impl SystemClock {
    /// A clock whose origin is now.
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the time")]
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { origin: tokio::time::Instant::now(), origin_wall: Timestamp::default().after(wall) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.origin_wall.after(self.monotonic())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the time")]
    fn monotonic(&self) -> Duration {
        tokio::time::Instant::now().saturating_duration_since(self.origin)
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}
