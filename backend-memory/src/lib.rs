#![doc = include_str!("../README.md")]

mod admin;
mod config;
mod records;
mod shard;
mod store;
mod sweeper;

pub use config::MemoryStoreBuilder;
pub use store::MemoryStore;
