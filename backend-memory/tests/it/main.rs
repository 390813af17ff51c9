//! The memory store, seen through the contract.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, and says where"
)]

mod admin;
mod capacity;
mod conformance;
mod contract;
mod expiry;
mod limits;
mod model;
mod races;
mod support;
