#![doc = include_str!("../README.md")]

mod admin;
mod call;
mod config;
mod doctor;
mod error;
mod group;
mod join;
mod names;
mod postgres_transaction;
mod record;
mod schema;
mod spare;
mod sql;
mod store;
mod sweep;
mod transaction;
mod transaction_guard;
mod watch;
mod wire;

pub use config::PostgresStoreBuilder;
pub use idempotency_core::Sweeper;
pub use names::NameError;
pub use postgres_transaction::PostgresTransaction;
/// The driver, in the version that this crate works with.
pub use sqlx;
pub use store::PostgresStore;
pub use transaction::{BegunInTransaction, TransactionError};
pub use transaction_guard::TransactionGuard;
