use std::time::Duration;

use idempotency_core::IdempotencyKey;

use crate::{
    failure::Verdict,
    harness::Aged,
    subject::{Subject, named},
};

/// How time passes in programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// By a clock that the test moves: to the millisecond.
    Clock,
    /// Records are made older.
    Age,
    /// The test waits.
    Wait,
}

/// Time in programs is counted in units. Steps are whole units apart. Unless the clock is moved by hand,
/// what lasts, lasts a third of a unit more than whole ones, so that deadlines (a lease, a retention, or a
/// lease and a retention) are a third or two thirds of a unit away from every step: the time that the
/// operations themselves take decides nothing.
#[derive(Debug)]
pub(super) struct Pace {
    how: How,
    unit: Duration,
    step: Duration,
}

impl Pace {
    pub(super) async fn of(t: &Subject) -> Verdict<Self> {
        let how = if t.has_clock() {
            How::Clock
        } else {
            let nobodys: IdempotencyKey = named("conformance", "nobody's")?;
            match t.age(&nobodys, Duration::ZERO).await? {
                Aged::Done => How::Age,
                Aged::Impossible => How::Wait,
            }
        };
        let least = match how {
            How::Clock => Duration::from_secs(1),
            // long, because it costs nothing: so long the machine may stand still
            How::Age => Duration::from_secs(30),
            How::Wait => Duration::from_millis(600),
        };
        // so that what a store may be late or early by is little to it
        let unit = least.max(t.late() * 12);
        Ok(Self { how, unit, step: t.profile().time_step })
    }

    pub(super) const fn how(&self) -> How {
        self.how
    }

    /// How many programs run beside each other.
    pub(super) const fn together(&self) -> u32 {
        match self.how {
            // they share the clock
            How::Clock => 1,
            How::Age => 4,
            How::Wait => 64,
        }
    }

    /// The longest program, and the longest pause in it, in units.
    pub(super) const fn longest(&self) -> (usize, u32) {
        match self.how {
            How::Wait => (12, 3),
            How::Clock | How::Age => (30, 9),
        }
    }

    /// How long a pause of `units` is; by hand, of a millisecond more where it is `over`.
    pub(super) fn pause(&self, units: u32, over: Over) -> Duration {
        match (self.how, over) {
            (How::Clock, Over::ByAMillisecond) => self.unit * units + Duration::from_millis(1),
            _ => self.unit * units,
        }
    }

    /// How long a lease or a retention of `units` is.
    pub(super) fn span(&self, units: u32) -> Duration {
        match self.how {
            How::Clock => (self.unit * units).max(Duration::from_millis(1)),
            _ => self.unit * units + self.unit / 3,
        }
    }

    /// How much later than it should be a step may come before it decides something.
    pub(super) fn slack(&self) -> Duration {
        match self.how {
            How::Clock => Duration::MAX,
            _ => self.unit * 32 / 100,
        }
    }

    /// How far off durations may be on a machine that is `behind`.
    pub(super) fn tolerance(&self, behind: Duration) -> Duration {
        /// Every write and every look rounds to milliseconds.
        const ROUNDING: Duration = Duration::from_millis(60);
        match self.how {
            How::Clock if self.step <= Duration::from_millis(1) => Duration::ZERO,
            How::Clock => self.step,
            _ => behind + self.step + ROUNDING,
        }
    }
}

/// Whether a pause ends on a deadline or behind it, where that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Exactly,
    ByAMillisecond,
}
