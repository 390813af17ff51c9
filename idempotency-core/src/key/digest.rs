use std::fmt;

use sha2::{Digest, Sha256};

use super::IdempotencyKey;

/// What stands for a key in logs, events and ledgers: 64 bits of a SHA-256 over scope and key.
///
/// It tells keys apart. It does not hide a key that can be guessed: whoever can list all possible
/// keys can find the one that has this digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest(u64);

impl KeyDigest {
    pub(super) fn of(key: &IdempotencyKey) -> Self {
        let mut hash = Sha256::new();
        let scope = key.scope_name().unwrap_or("");
        hash.update((scope.len() as u64).to_be_bytes());
        hash.update(scope);
        hash.update(key.key());
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyDigest({self})")
    }
}

/// Shows the digest of a key, and makes it only when it is shown: `tracing` reads the fields of a span
/// that nobody wants, where its feature `log` is on.
pub(crate) struct ShownDigest<'a>(pub(crate) &'a IdempotencyKey);

impl fmt::Display for ShownDigest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.digest().fmt(f)
    }
}
