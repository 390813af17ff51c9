//! Redis and Valkey servers: one alone, a primary with replicas, Sentinels, a Cluster.

mod client;
mod cluster;
mod program;
mod sentinel;
mod server;
mod tls;

pub use cluster::RedisCluster;
pub use program::RedisProgram;
pub use sentinel::RedisSentinel;
pub use server::{RedisOptions, RedisServer};
