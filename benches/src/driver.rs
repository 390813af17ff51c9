//! Times closed loops. The only place of the benches that reads a clock.

use std::time::{Duration, Instant};

use cpu_time::{ProcessTime, ThreadTime};
use hdrhistogram::Histogram;

/// What a closed loop took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) wall: Duration,
    /// Of the whole process, all threads.
    pub(crate) cpu: Duration,
    pub(crate) operations: u32,
}

impl Taken {
    /// Wall-clock nanoseconds an operation.
    pub(crate) fn wall_ns(&self) -> f64 {
        self.wall.as_secs_f64() * 1e9 / f64::from(self.operations)
    }

    /// CPU nanoseconds an operation.
    pub(crate) fn cpu_ns(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e9 / f64::from(self.operations)
    }

    pub(crate) fn per_second(&self) -> f64 {
        f64::from(self.operations) / self.wall.as_secs_f64()
    }
}

/// Times `work`, which does `operations` of something.
pub(crate) fn timed(operations: u32, work: impl FnOnce()) -> Taken {
    let (cpu, wall) = (ProcessTime::now(), now());
    work();
    Taken { wall: wall.elapsed(), cpu: cpu.elapsed(), operations }
}

/// How long single calls took, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Latencies {
    pub(crate) wall: Histogram<u64>,
    /// Of the calling thread: what a pre-emption by other load does not lengthen.
    pub(crate) cpu: Histogram<u64>,
}

/// A minute: no call here takes that long.
const LONGEST_NANOS: u64 = 60_000_000_000;

impl Latencies {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            wall: Histogram::new_with_bounds(1, LONGEST_NANOS, 3)?,
            cpu: Histogram::new_with_bounds(1, LONGEST_NANOS, 3)?,
        })
    }

    pub(crate) fn record<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let (cpu, wall) = (ThreadTime::now(), now());
        let answer = call();
        let (wall, cpu) = (wall.elapsed(), cpu.elapsed());
        self.wall.saturating_record(nanos(wall));
        self.cpu.saturating_record(nanos(cpu));
        answer
    }
}

/// The median.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident_bytes() -> anyhow::Result<u64> {
    const PAGE_BYTES: u64 = 4_096;
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).unwrap_or_default().parse::<u64>()?;
    Ok(pages * PAGE_BYTES)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the benches measure real time; the stores under test have their own clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
