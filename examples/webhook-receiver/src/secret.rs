use std::{convert::Infallible, fmt, str::FromStr};

use anyhow::{Result, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit};
use sha2::Sha256;

/// What a sender signs with. Any text is taken, and looked at later, so that no error message of the command
/// line repeats it.
#[derive(Clone)]
pub struct Secret(String);

/// A key of HMAC-SHA256.
pub(crate) type Key = Hmac<Sha256>;

impl Secret {
    /// Of a sender of Standard Webhooks: the bytes that stand after `whsec_` in base64.
    pub(crate) fn standard(&self) -> Result<Key> {
        let bytes =
            self.0.strip_prefix("whsec_").and_then(|text| BASE64_STANDARD.decode(text).ok());
        match bytes {
            Some(bytes) if (24..=64).contains(&bytes.len()) => Ok(Key::new_from_slice(&bytes)?),
            _ => bail!("it must be whsec_ and 24 to 64 bytes in base64, as the sender has it"),
        }
    }

    /// Of Stripe: the text as it is.
    pub(crate) fn stripe(&self) -> Result<Key> {
        if !self.0.starts_with("whsec_") {
            bail!("it must begin with whsec_, as Stripe's dashboard shows it");
        }
        Ok(Key::new_from_slice(self.0.as_bytes())?)
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
