#![doc = include_str!("../README.md")]

mod address;
mod admin;
mod answer;
mod config;
mod doctor;
mod error;
mod link;
mod nodes;
mod page;
mod replicas;
mod scan;
mod script;
mod store;
mod watch;
mod wire;

pub use config::RedisStoreBuilder;
pub use redis;
pub use store::RedisStore;
