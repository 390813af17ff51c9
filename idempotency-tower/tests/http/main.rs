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
mod framing;
mod grpc;
mod grpc_web;
mod identity;
mod joined;
mod key_sources;
mod keys;
mod layers;
#[cfg(target_os = "linux")]
mod memory;
mod nesting;
mod outcomes;
mod profiles;
mod replays;
mod request_bodies;
mod settings;
mod store_calls;
mod store_trouble;
mod streams;
mod support;
mod trailers;
mod turned_away;
mod uploads;
mod webhooks;
