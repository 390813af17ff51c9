#![doc = include_str!("../README.md")]

mod admin;
mod call;
mod config;
mod doctor;
mod error;
mod group;
mod names;
mod schema;
mod sql;
mod store;
mod sweep;
mod transaction;
mod watch;
mod wire;

pub use config::PostgresStoreBuilder;
pub use idempotency_core::Sweeper;
pub use names::NameError;
/// The driver, in the version that this crate works with.
pub use sqlx;
pub use store::PostgresStore;
pub use transaction::{BegunInTransaction, TransactionError, TransactionGuard};
