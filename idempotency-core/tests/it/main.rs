//! The executor against stores that behave, stores that fail, and owners that die.

#![allow(unreachable_pub, reason = "a test binary exports nothing")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests may panic, and look at the clock that they move themselves"
)]

mod cancellation;
mod duplicates;
mod guard;
mod joining;
mod lease;
mod measuring;
mod outage;
mod random_faults;
mod recovery;
mod results;
mod secrets;
mod settings;
mod support;
mod waiting;
