//! The store against real servers. A server that is missing is a failure, never a skip.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod capabilities;
mod conformance;
mod faults;
mod model;
mod proxy;
mod support;
mod transactions;
