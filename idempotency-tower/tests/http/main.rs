//! The layer over real sockets: a server and its clients on loopback.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "in tests a failure is a panic"
)]

mod client_gone;
mod demo;
mod duplicates;
mod faulty_store;
mod identity;
mod keys;
mod layers;
mod outcomes;
mod replays;
mod request_bodies;
mod store_trouble;
mod streams;
mod support;
mod webhooks;
