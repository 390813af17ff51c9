//! Fingerprints: versioned digests of the request a key stands for.

mod builder;
mod canonical_json;
mod error;

use std::fmt;

pub use builder::{FingerprintBuilder, FingerprintKey};
pub use error::FingerprintError;
use serde::Serialize;

/// The versioned digest of the request a key stands for: a version byte and 32 bytes.
///
/// The same request must always give the same fingerprint, another request another one. What makes
/// requests the same is the caller's choice: bytes ([`of_bytes`](Self::of_bytes)), the value of a
/// JSON document ([`of_json`](Self::of_json)), or several named parts ([`builder`](Self::builder)).
///
/// A plain fingerprint of guessable data lets whoever reads the store test guesses; use
/// [`keyed_builder`](Self::keyed_builder) where that matters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    version: u8,
    digest: [u8; 32],
}

impl Fingerprint {
    /// Bytes of a stored fingerprint.
    pub const STORED_BYTES: usize = 33;

    /// Version 1: SHA-256 over the named, length-prefixed parts.
    pub const SHA256: u8 = 1;

    /// Version 2: HMAC-SHA-256 over the same parts.
    pub const HMAC_SHA256: u8 = 2;

    /// Named parts, hashed plainly.
    pub fn builder() -> FingerprintBuilder {
        FingerprintBuilder::plain()
    }

    /// Named parts, hashed with a secret, so that a stored fingerprint cannot be guessed at.
    pub fn keyed_builder(key: &FingerprintKey) -> FingerprintBuilder {
        FingerprintBuilder::keyed(key)
    }

    /// The bytes as they are: any change of them is another request.
    ///
    /// HTTP clients choose a new boundary for each try of a `multipart/form-data` upload, so its raw
    /// bytes differ from try to try: name the parts that count instead.
    pub fn of_bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self::builder().part("body", bytes).finish()
    }

    /// A value, as its canonical JSON (see [`FingerprintBuilder::json`]): a reordered field is the
    /// same request.
    ///
    /// # Errors
    /// The value cannot be written as JSON, or as JSON that has a canonical form.
    pub fn of_json<T: Serialize + ?Sized>(value: &T) -> Result<Self, FingerprintError> {
        let text = serde_json::to_vec(value).map_err(FingerprintError::serialize)?;
        Ok(Self::builder().json("body", text)?.finish())
    }

    /// A JSON text as a client sent it, in canonical form (see [`FingerprintBuilder::json`]).
    ///
    /// # Errors
    /// Not JSON, a member name twice in one object, or nested too deeply.
    pub fn of_json_text(text: impl AsRef<[u8]>) -> Result<Self, FingerprintError> {
        Ok(Self::builder().json("body", text)?.finish())
    }

    /// What a store keeps: the version, then the digest.
    pub fn to_stored_bytes(&self) -> [u8; Self::STORED_BYTES] {
        let mut stored = [0; Self::STORED_BYTES];
        let (version, digest) = stored.split_at_mut(1);
        version.copy_from_slice(&[self.version]);
        digest.copy_from_slice(&self.digest);
        stored
    }

    /// A fingerprint that a store has kept, of any version: one that this release does not make
    /// equals none that it makes.
    pub fn from_stored_bytes(stored: [u8; Self::STORED_BYTES]) -> Self {
        let [version, digest @ ..] = stored;
        Self { version, digest }
    }

    /// How the digest was made: [`Self::SHA256`], [`Self::HMAC_SHA256`], or one of another release.
    pub const fn version(&self) -> u8 {
        self.version
    }
}

/// Shows the version and 32 bits of the digest.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.digest;
        write!(f, "Fingerprint(v{} {a:02x}{b:02x}{c:02x}{d:02x}…)", self.version)
    }
}

#[cfg(test)]
mod tests;
