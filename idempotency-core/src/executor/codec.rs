use serde::{Serialize, de::DeserializeOwned};

/// How values are written into a stored answer.
///
/// The stored answer names its codec, so a service can change it while old answers are still
/// replayed. JSON survives a field added while answers are kept; the binary codecs do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// JSON.
    #[default]
    Json,
    /// bincode 2, standard configuration. The crate is unmaintained (RUSTSEC-2025-0141): choose it
    /// only to keep reading what you have stored with it.
    #[cfg(feature = "bincode")]
    Bincode,
    /// postcard 1.
    #[cfg(feature = "postcard")]
    Postcard,
}

/// A value could not be written or read. Never shows the value.
#[derive(Debug, thiserror::Error)]
#[error("a value cannot be {what} as {codec}")]
pub struct CodecError {
    what: &'static str,
    codec: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Codec {
    pub(super) const fn id(self) -> u8 {
        match self {
            Self::Json => 1,
            #[cfg(feature = "bincode")]
            Self::Bincode => 2,
            #[cfg(feature = "postcard")]
            Self::Postcard => 3,
        }
    }

    pub(super) const fn from_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Json),
            #[cfg(feature = "bincode")]
            2 => Some(Self::Bincode),
            #[cfg(feature = "postcard")]
            3 => Some(Self::Postcard),
            _ => None,
        }
    }

    /// Appends `value` to `out`.
    pub(super) fn encode_into<T: Serialize>(
        self,
        value: &T,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        match self {
            Self::Json => serde_json::to_writer(out, value).map_err(|e| self.error("written", e)),
            #[cfg(feature = "bincode")]
            Self::Bincode => {
                bincode::serde::encode_into_std_write(value, out, bincode::config::standard())
                    .map(drop)
                    .map_err(|e| self.error("written", e))
            }
            #[cfg(feature = "postcard")]
            Self::Postcard => {
                let bytes = postcard::to_stdvec(value).map_err(|e| self.error("written", e))?;
                out.extend_from_slice(&bytes);
                Ok(())
            }
        }
    }

    pub(super) fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, CodecError> {
        match self {
            Self::Json => serde_json::from_slice(bytes).map_err(|e| self.error("read", e)),
            #[cfg(feature = "bincode")]
            Self::Bincode => bincode::serde::decode_from_slice(bytes, bincode::config::standard())
                .map(|(value, _)| value)
                .map_err(|e| self.error("read", e)),
            #[cfg(feature = "postcard")]
            Self::Postcard => postcard::from_bytes(bytes).map_err(|e| self.error("read", e)),
        }
    }

    fn error(
        self,
        what: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> CodecError {
        let codec = match self {
            Self::Json => "JSON",
            #[cfg(feature = "bincode")]
            Self::Bincode => "bincode",
            #[cfg(feature = "postcard")]
            Self::Postcard => "postcard",
        };
        CodecError { what, codec, source: source.into() }
    }
}
