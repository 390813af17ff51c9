#![doc = include_str!("../README.md")]

mod connect;

pub use connect::{ConnectError, connect};
pub use idempotency_core::*;
#[cfg(feature = "dynamodb")]
pub use idempotency_dynamodb::{
    Attribute as DynamoDbAttribute, DynamoDbStore, DynamoDbStoreBuilder,
    TransactionError as DynamoDbTransactionError, aws_sdk_dynamodb,
};
#[cfg(feature = "memory")]
pub use idempotency_memory::{MemoryStore, MemoryStoreBuilder};
#[cfg(feature = "postgres")]
pub use idempotency_postgres::{
    BegunInTransaction, NameError, PostgresStore, PostgresStoreBuilder, Sweeper, TransactionError,
    TransactionGuard, sqlx,
};
#[cfg(feature = "redis")]
pub use idempotency_redis::{RedisStore, RedisStoreBuilder, redis};
/// The layer for HTTP services.
#[cfg(feature = "tower")]
pub use idempotency_tower as tower;

/// The example in the repository's README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod repository_readme {}
