//! What the tests of the stores call them with.
#![expect(clippy::unwrap_used, reason = "only tests come here, and what is no value is their end")]

use std::{fmt::Display, time::Duration};

use idempotency_core::{Fingerprint, IdempotencyKey, Lease, Retention};

/// A key of the scope `shop`.
///
/// # Panics
/// No key can be called so.
pub fn key(name: impl Display) -> IdempotencyKey {
    IdempotencyKey::new("shop", name.to_string()).unwrap()
}

/// The fingerprint of the one request that all callers send.
pub fn fingerprint() -> Fingerprint {
    Fingerprint::of_bytes("the request")
}

/// # Panics
/// No lease is so short or so long.
pub fn lease(millis: u64) -> Lease {
    Lease::new(Duration::from_millis(millis)).unwrap()
}

/// # Panics
/// No retention is so short or so long.
pub fn retention(millis: u64) -> Retention {
    Retention::new(Duration::from_millis(millis)).unwrap()
}
