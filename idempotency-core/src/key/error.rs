use super::MAX_BYTES;

/// Why a key or a scope is refused. Never contains the value itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// An empty key would be shared by all who forget to set one.
    #[error("an empty {what} is refused: use 1 to {MAX_BYTES} bytes")]
    Empty {
        /// `key` or `scope`.
        what: &'static str,
    },
    /// Longer than every store can hold.
    #[error("a {what} of {bytes} bytes is refused: use 1 to {MAX_BYTES} bytes")]
    TooLong {
        /// `key` or `scope`.
        what: &'static str,
        /// Its length in bytes of UTF-8.
        bytes: usize,
    },
    /// Control characters are invisible in logs and break text protocols.
    #[error("a {what} with the control character U+{:04X} at byte {at} is refused", *.character as u32)]
    ControlCharacter {
        /// `key` or `scope`.
        what: &'static str,
        /// The first one.
        character: char,
        /// Its offset in bytes.
        at: usize,
    },
}

/// Lets [`IdempotencyKey::new`](super::IdempotencyKey::new) take a [`Scope`](super::Scope) that
/// exists already as well as a text.
impl From<std::convert::Infallible> for KeyError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// The one rule for keys and scopes: 1 to 255 bytes, no control characters.
pub(super) fn validate(what: &'static str, text: &str) -> Result<(), KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty { what });
    }
    if text.len() > MAX_BYTES {
        return Err(KeyError::TooLong { what, bytes: text.len() });
    }
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, character)) => Err(KeyError::ControlCharacter { what, character, at }),
        None => Ok(()),
    }
}
