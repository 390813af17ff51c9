use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use idempotency_core::{Clock, SystemClock, Timestamp};

/// The clock that decides, and what is known of its difference from the service's (C33).
///
/// The service has a clock, but does not let it decide. It tells the time with every reply, to a
/// second: that is enough to notice a clock that must not decide.
#[derive(Debug)]
pub(crate) struct Timekeeper {
    clock: Source,
    /// The largest difference between two clocks that decide.
    pub(crate) skew_bound: Duration,
    /// A reply has shown that the clock is right, and none since that it is wrong.
    is_right: AtomicBool,
}

#[derive(Debug)]
enum Source {
    /// Reads the wall clock once and then grows with the monotonic one, until a reply shows that the
    /// two went apart: the machine was suspended, or its clock was set.
    System(RwLock<SystemClock>),
    Given(Arc<dyn Clock>),
}

impl Timekeeper {
    pub(crate) fn new(clock: Option<Arc<dyn Clock>>, skew_bound: Duration) -> Self {
        let clock =
            clock.map_or_else(|| Source::System(RwLock::new(SystemClock::new())), Source::Given);
        Self { clock, skew_bound, is_right: AtomicBool::new(false) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match &self.clock {
            Source::System(clock) => clock.read().unwrap_or_else(PoisonError::into_inner).now(),
            Source::Given(clock) => clock.now(),
        }
    }

    pub(crate) fn is_right(&self) -> bool {
        self.is_right.load(Ordering::Relaxed)
    }

    /// A reply has shown that the clock is right.
    pub(crate) fn confirm(&self) {
        self.is_right.store(true, Ordering::Relaxed);
    }

    /// A reply has shown that it is wrong. The wall clock may be right by now.
    pub(crate) fn doubt(&self) {
        self.is_right.store(false, Ordering::Relaxed);
        if let Source::System(clock) = &self.clock {
            *clock.write().unwrap_or_else(PoisonError::into_inner) = SystemClock::new();
        }
    }

    /// How far this clock is from a reply's `Date`, at least; zero when it may be within the bound.
    /// None: not a date.
    ///
    /// The reply was made between `sent` and `received`, and its date is cut to the second.
    pub(crate) fn off_by(
        &self,
        date: &str,
        sent: Timestamp,
        received: Timestamp,
    ) -> Option<Duration> {
        let date = httpdate::parse_http_date(date).ok()?;
        let date = date.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let earliest = Timestamp::default().after(date);
        let latest = earliest.after(Duration::from_millis(999));
        let ahead = sent.since(latest);
        let behind = earliest.since(received);
        let off = ahead.max(behind);
        Some(if off > self.skew_bound { off } else { Duration::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wed, 01 Jan 2020 00:00:10 GMT
    const DATE: &str = "Wed, 01 Jan 2020 00:00:10 GMT";

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_unix_millis(1_577_836_800_000 + millis)
    }

    #[test]
    fn a_date_is_a_whole_second_and_the_trip_takes_time() {
        let keeper = Timekeeper::new(None, Duration::from_secs(1));
        let off = |sent, received| keeper.off_by(DATE, at(sent), at(received)).unwrap().as_millis();
        // within the second, and up to the bound before and after it
        assert_eq!([off(10_000, 10_005), off(9_000, 9_000), off(11_999, 11_999)], [0; 3]);
        // further off by a millisecond
        assert_eq!((off(8_998, 8_999), off(12_000, 12_005)), (1_001, 1_001));
        // a slow trip is no difference
        assert_eq!(off(5_000, 15_000), 0);
        assert_eq!(off(70_000, 70_010), 59_001);
        for no_date in ["", "today", "Wed, 01 Jan 1969 00:00:10 GMT"] {
            assert_eq!(keeper.off_by(no_date, at(0), at(0)), None);
        }
    }
}
