use std::{convert::Infallible, fmt, str::FromStr};

use anyhow::{Result, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit};
use sha2::Sha256;

/// What webhooks are signed with: `whsec_`, then 24 to 64 bytes in base64. Any text is taken, and looked
/// at later, so that no error message of the command line repeats it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The key that signs.
    pub(super) fn key(&self) -> Result<Hmac<Sha256>> {
        let bytes =
            self.0.strip_prefix("whsec_").and_then(|text| BASE64_STANDARD.decode(text).ok());
        match bytes {
            Some(bytes) if (24..=64).contains(&bytes.len()) => Ok(Hmac::new_from_slice(&bytes)?),
            _ => bail!(
                "it must be whsec_ and 24 to 64 bytes in base64: whsec_$(openssl rand -base64 32)"
            ),
        }
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
