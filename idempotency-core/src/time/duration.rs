use std::time::Duration;

/// Why a duration cannot be a [`Lease`] or a [`Retention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Zero would end before it began.
    #[error("a {what} of zero is refused: use at least 1 ms")]
    Zero {
        /// `lease` or `retention`.
        what: &'static str,
    },
    /// Longer than any store has to promise.
    #[error("a {what} of {asked:?} is refused: the longest is {longest:?}")]
    TooLong {
        /// `lease` or `retention`.
        what: &'static str,
        /// What was asked for.
        asked: Duration,
        /// The longest that is accepted.
        longest: Duration,
    },
}

/// Rounds up to whole milliseconds and refuses zero and more than `longest` (C32).
fn validated(
    asked: Duration,
    longest: Duration,
    what: &'static str,
) -> Result<Duration, DurationError> {
    if asked.is_zero() {
        return Err(DurationError::Zero { what });
    }
    if asked > longest {
        return Err(DurationError::TooLong { what, asked, longest });
    }
    let millis = asked.as_nanos().div_ceil(1_000_000);
    // at most `longest`, so it fits
    Ok(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}

const DAY: Duration = Duration::from_hours(24);

/// How long a claim holds without renewal: 1 ms to 24 h, in whole milliseconds (rounded up).
///
/// It should be at least three times the longest time the work may block its thread, because the
/// heartbeat renews at a third of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease(Duration);

impl Lease {
    /// The longest lease: a crash must not block a key for longer than a day.
    pub const MAX: Duration = DAY;

    /// 30 s, what the executor uses unless told otherwise.
    pub const DEFAULT: Self = Self(Duration::from_secs(30));

    /// A lease of `duration`, rounded up to a millisecond.
    ///
    /// # Errors
    /// Zero, or longer than [`Lease::MAX`].
    pub fn new(duration: Duration) -> Result<Self, DurationError> {
        validated(duration, Self::MAX, "lease").map(Self)
    }

    /// The length.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl TryFrom<Duration> for Lease {
    type Error = DurationError;

    fn try_from(duration: Duration) -> Result<Self, DurationError> {
        Self::new(duration)
    }
}

/// How long a response is replayed, counted from completion: 1 ms to 3 660 days, in whole
/// milliseconds (rounded up).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Retention(Duration);

impl Retention {
    /// The longest retention: ten years and the leap days in them.
    pub const MAX: Duration = DAY.saturating_mul(3_660);

    /// 24 h, what the executor uses unless told otherwise (the window of most payment providers).
    pub const DEFAULT: Self = Self(DAY);

    /// A retention of `duration`, rounded up to a millisecond.
    ///
    /// # Errors
    /// Zero, or longer than [`Retention::MAX`].
    pub fn new(duration: Duration) -> Result<Self, DurationError> {
        validated(duration, Self::MAX, "retention").map(Self)
    }

    /// The length.
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// As long as the lease, which is never longer than the longest retention.
impl From<Lease> for Retention {
    fn from(lease: Lease) -> Self {
        Self(lease.get())
    }
}

impl TryFrom<Duration> for Retention {
    type Error = DurationError;

    fn try_from(duration: Duration) -> Result<Self, DurationError> {
        Self::new(duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind of fault: TTL arguments (H-47). What a driver would refuse at run time is refused when
    /// it is configured, and what it would round to nothing is rounded up.
    #[test]
    fn durations_are_rounded_up_or_refused_when_configured() {
        let ten_years = DAY * 3_653;
        let cases = [
            (Duration::ZERO, None, None),
            (Duration::from_micros(400), Some(1), Some(1)),
            (Duration::from_millis(1), Some(1), Some(1)),
            (Duration::from_micros(1_001), Some(2), Some(2)),
            (Duration::from_millis(999), Some(999), Some(999)),
            (Duration::from_millis(1_500), Some(1_500), Some(1_500)),
            (DAY, Some(86_400_000), Some(86_400_000)),
            (ten_years, None, Some(315_619_200_000)),
            (Duration::MAX, None, None),
        ];
        for (asked, lease, retention) in cases {
            let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap();
            assert_eq!(Lease::new(asked).ok().map(|l| millis(l.get())), lease, "{asked:?}");
            assert_eq!(Retention::new(asked).ok().map(|r| millis(r.get())), retention, "{asked:?}");
        }
    }

    #[test]
    fn refusals_say_what_is_accepted() {
        let error = Lease::new(DAY * 2).unwrap_err().to_string();
        assert!(error.contains("lease") && error.contains("86400s"), "{error}");
    }
}
