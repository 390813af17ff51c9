//! Time: validated durations, the timestamps of records, and the only place that reads a clock.

mod clock;
mod duration;
mod manual_clock;
mod timestamp;

pub use clock::{Clock, Sleep, SystemClock};
pub use duration::{DurationError, Lease, Retention};
pub use manual_clock::ManualClock;
pub use timestamp::Timestamp;
