#![doc = include_str!("../README.md")]

mod admin;
mod call;
mod config;
mod connect;
mod doctor;
mod error;
mod expression;
mod layout;
mod page;
mod request;
mod schema;
mod size;
mod store;
mod timekeeper;
mod transaction;
mod values;
mod wire;

/// The driver, in the version that this crate works with.
pub use aws_sdk_dynamodb;
pub use config::DynamoDbStoreBuilder;
pub use layout::{Attribute, NameError};
pub use store::DynamoDbStore;
pub use transaction::{TransactionError, TransactionReply};
