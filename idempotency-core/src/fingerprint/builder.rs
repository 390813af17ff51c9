use std::fmt;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use super::{Fingerprint, FingerprintError, canonical_json};
use crate::keyed_hash::keyed_hash;

/// The secret of keyed fingerprints. `Debug` does not show it.
#[derive(Clone)]
pub struct FingerprintKey(Hmac<Sha256>);

impl FingerprintKey {
    /// A key of any length; 32 random bytes are right. While it changes, retries of requests that
    /// were claimed under the old one are answered with a mismatch.
    pub fn new(secret: impl AsRef<[u8]>) -> Self {
        Self(keyed_hash(secret.as_ref()))
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey(…)")
    }
}

/// Builds a fingerprint out of named parts.
///
/// Each part is hashed as length of the name, name, length of the value, value, so that no two
/// different lists of parts meet. The order of the parts counts.
///
/// ```
/// use idempotency_core::Fingerprint;
///
/// let body = br#"{"amount": 5, "currency": "eur"}"#;
/// let fingerprint = Fingerprint::builder()
///     .part("method", "POST")
///     .part("path", "/v1/charges")
///     .json("body", body)?
///     .finish();
/// # let _ = fingerprint;
/// # Ok::<(), idempotency_core::FingerprintError>(())
/// ```
#[derive(Clone)]
#[must_use = "a fingerprint is made by `finish`"]
pub struct FingerprintBuilder(Hash);

#[derive(Clone)]
enum Hash {
    Plain(Sha256),
    Keyed(Hmac<Sha256>),
}

impl FingerprintBuilder {
    pub(super) fn plain() -> Self {
        Self(Hash::Plain(Sha256::new()))
    }

    pub(super) fn keyed(key: &FingerprintKey) -> Self {
        Self(Hash::Keyed(key.0.clone()))
    }

    /// Adds a part as it is.
    pub fn part(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.add(name.as_bytes());
        self.add(value.as_ref());
        self
    }

    /// Adds a JSON text in canonical form: no white space, members in the order of RFC 8785 (by
    /// UTF-16 code unit), strings in the one escaping of RFC 8785.
    ///
    /// Unlike in RFC 8785 the text of a number counts as it is: `9007199254740993` and
    /// `9007199254740992` are different requests, and so are `1`, `1.0` and `1e0`. The order of
    /// array elements counts. `"\u00e9"` and `"é"` are the same.
    ///
    /// # Errors
    /// Not JSON, a member name twice in one object, or nested more than 127 levels deep.
    pub fn json(self, name: &str, text: impl AsRef<[u8]>) -> Result<Self, FingerprintError> {
        let canonical = canonical_json::canonical(text.as_ref())?;
        // a name of its own: canonical JSON never meets the same bytes as a raw part
        Ok(self.part(&format!("json:{name}"), canonical))
    }

    /// The fingerprint of the parts.
    pub fn finish(self) -> Fingerprint {
        match self.0 {
            Hash::Plain(hash) => {
                Fingerprint { version: Fingerprint::SHA256, digest: hash.finalize().into() }
            }
            Hash::Keyed(mac) => Fingerprint {
                version: Fingerprint::HMAC_SHA256,
                digest: mac.finalize().into_bytes().into(),
            },
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_be_bytes();
        match &mut self.0 {
            Hash::Plain(hash) => {
                hash.update(length);
                hash.update(bytes);
            }
            Hash::Keyed(mac) => {
                mac.update(&length);
                mac.update(bytes);
            }
        }
    }
}

impl fmt::Debug for FingerprintBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintBuilder(…)")
    }
}
