//! Starts and stops real servers for the tests: on free ports of loopback, in temporary directories.
//!
//! A server lives as long as its value. A value in a `static` is never dropped, and a test process can
//! be killed; the server ends all the same, because it runs under a small wrapper that reads a pipe
//! whose other end only the test process holds. So one server can be shared by all tests of a process:
//!
//! ```no_run
//! use std::sync::OnceLock;
//!
//! use test_servers::redis::RedisServer;
//!
//! fn shared() -> &'static RedisServer {
//!     static SERVER: OnceLock<RedisServer> = OnceLock::new();
//!     SERVER.get_or_init(|| RedisServer::start().expect("a Redis server"))
//! }
//! ```
//!
//! Nothing is ever skipped: a program that is missing is an error that names the command which
//! installs it. Everything here blocks the calling thread, for a fraction of a second as a rule.
//!
//! One module a kind of server. Beside them stands what the tests of all stores have in common: a
//! [`Caller`] of a store, what it calls it with, waiting ([`soon!`]), and how much a run does ([`count`]).

mod authority;
mod caller;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
mod effort;
mod error;
mod poll;
mod port;
pub mod postgres;
mod process;
pub mod redis;
#[cfg(feature = "tls-proxy")]
mod tls_proxy;
mod values;

pub use authority::Authority;
pub use caller::{Caller, replayed, until_abandoned};
pub use effort::{count, is_full};
pub use error::ServerError;
pub use poll::{Patience, soon, until};
pub use port::free_port;
pub use process::{Launch, Process};
#[cfg(feature = "tls-proxy")]
pub use tls_proxy::TlsProxy;
pub use values::{fingerprint, key, lease, retention};
