//! `DynamoDB`, as an emulator inside the process, and a proxy that misbehaves before it.
//!
//! The emulator is `dynoxide`: it keeps tables in memory and serves them over HTTP on loopback, from a
//! thread of its own. Nothing outlives the process.

mod emulator;
mod proxy;

pub use emulator::DynamoDbEmulator;
pub use proxy::{DynamoDbProxy, Fault, Seen};
