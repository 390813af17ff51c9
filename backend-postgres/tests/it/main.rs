//! The store against real servers. A server that is missing is a failure, never a skip.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod cancellation;
mod capabilities;
mod conformance;
mod groups;
mod isolation;
mod joining;
mod model;
mod outages;
mod round_trips;
mod rows;
mod support;
mod sweeping;
mod transactions;
