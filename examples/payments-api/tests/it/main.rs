//! The program as a user runs it: a child process, and clients on loopback.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "in tests a failure is a panic"
)]

mod browser;
mod checkout;
mod cut;
mod exactly_once;
mod metrics;
mod ops;
mod outbox;
mod payments;
mod queries;
mod rate_limit;
mod receiver;
mod scrape;
mod service;
mod shared_store;
mod webhooks;
