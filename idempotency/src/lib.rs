#![doc = include_str!("../README.md")]

mod connect;

#[cfg(feature = "postgres")]
pub use connect::connect_postgres;
pub use connect::{ConnectError, connect, connect_unchecked};
// what an application needs beside the library's own types: to write its results down, to hold bytes,
// to implement the traits
pub use async_trait::async_trait;
pub use bytes;
pub use idempotency_core::*;
#[cfg(feature = "dynamodb")]
pub use idempotency_dynamodb::{
    Attribute as DynamoDbAttribute, DynamoDbStore, DynamoDbStoreBuilder,
    TransactionError as DynamoDbTransactionError, aws_sdk_dynamodb,
};
#[cfg(feature = "memory")]
pub use idempotency_memory::{MemoryStore, MemoryStoreBuilder};
/// What the executor does, in metrics.
#[cfg(feature = "metrics")]
pub use idempotency_metrics as metrics;
#[cfg(feature = "postgres")]
pub use idempotency_postgres::{
    BegunInTransaction, NameError, PostgresStore, PostgresStoreBuilder, PostgresTransaction,
    TransactionError, TransactionGuard, sqlx,
};
#[cfg(feature = "redis")]
pub use idempotency_redis::{RedisStore, RedisStoreBuilder, redis};
/// The layer for HTTP services.
#[cfg(feature = "tower")]
pub use idempotency_tower as tower;
pub use serde;

/// The example in the repository's README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod repository_readme {}
