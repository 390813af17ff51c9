//! Stores by URL, and what the facade re-exports.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[cfg(feature = "memory")]
mod connect;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod features;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod urls;
