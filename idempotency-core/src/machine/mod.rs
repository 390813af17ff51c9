//! The contract as pure functions: what is stored, what is asked, and the moment give what is written
//! and what is answered. This is the specification; every store is checked against it.
//!
//! Unreadable records never come here: they are refused where they are read (C00).

mod claim;
mod complete;
mod operator;
mod release;
mod renew;

pub use claim::claim;
pub use complete::complete;
pub use operator::{list_state, remove, settle};
pub use release::release;
pub use renew::renew;

use std::time::Duration;

use crate::{
    record::{Record, State},
    time::Timestamp,
};

/// The moment of a decision, on the clock that decides (C33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The moment. New deadlines count from it.
    pub at: Timestamp,
    /// The largest difference between the clocks that may have written the record; zero where one
    /// clock decides. Deadlines of others are over only when they are over by this much.
    pub skew_bound: Duration,
}

impl Now {
    /// Deadlines are inclusive: at their own millisecond they are not over yet.
    fn is_past(self, deadline: Timestamp) -> bool {
        self.at.before(self.skew_bound) > deadline
    }
}

impl From<Timestamp> for Now {
    fn from(at: Timestamp) -> Self {
        Self { at, skew_bound: Duration::ZERO }
    }
}

/// What to write and what to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the write belongs to the answer"]
pub struct Decision<A> {
    /// What to write, in the same atomic step.
    pub write: Write,
    /// What to answer once it is written.
    pub answer: A,
}

/// What a decision writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Nothing.
    Keep,
    /// This record, in the place of what is there.
    Put(Record),
}

impl<A> Decision<A> {
    const fn keep(answer: A) -> Self {
        Self { write: Write::Keep, answer }
    }

    const fn put(record: Record, answer: A) -> Self {
        Self { write: Write::Put(record), answer }
    }
}

/// The record that `lookup` shows: none past its retention, and none for an unused key.
pub fn lookup(record: Option<&Record>, now: Now) -> Option<&Record> {
    remembered(record, now).filter(|record| record.state != State::Unused)
}

/// Whether the record is past its retention, so that a sweep may remove it (C30, C55).
pub fn is_expired(record: &Record, now: Now) -> bool {
    now.is_past(record.expires_at)
}

/// Whether a record that is removed takes an unsettled outcome with it (C55).
pub fn is_unsettled(record: &Record) -> bool {
    use crate::record::ReleaseReason::Unknown;
    matches!(record.state, State::InProgress { .. } | State::Released { reason: Unknown, .. })
}

/// The record unless it is past its retention.
fn remembered(record: Option<&Record>, now: Now) -> Option<&Record> {
    record.filter(|record| !is_expired(record, now))
}

#[cfg(test)]
mod tests;
