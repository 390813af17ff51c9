//! Keys: who owns them, what they are, how they are stored and how they are shown.

mod derive;
mod digest;
mod error;
mod idempotency_key;
mod namespace;
mod scope;

pub use digest::KeyDigest;
pub(crate) use digest::ShownDigest;
pub use error::KeyError;
pub use idempotency_key::IdempotencyKey;
pub use namespace::{Namespace, NamespaceError, StorageKey};
pub use scope::Scope;

/// The longest scope and the longest key, in bytes of UTF-8.
pub(crate) const MAX_BYTES: usize = 255;
