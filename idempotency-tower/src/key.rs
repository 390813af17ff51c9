//! The key of a request: where it stands, and what is asked of it.

mod body;
mod header;
mod pointer;
mod source;

use std::borrow::Cow;

pub(crate) use self::header::find as find_in_header;
pub use self::{
    pointer::{JsonPointer, JsonPointerError},
    source::{CustomKey, KeySource},
};
use crate::{KeyRule, KeyText};

/// Why a key cannot be used. Never contains the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFault {
    Repeated,
    Empty,
    TooLong { bytes: usize, max: usize },
    NotPrintable { at: usize },
    NotAString,
    Parameters,
    Ambiguous { character: char },
    NotUuid,
    NotText,
    BodyNotJson,
}

impl KeyRule {
    /// The one rule for keys from everywhere.
    fn check(self, key: &str) -> Result<(), KeyFault> {
        if let Some(at) = key.bytes().position(|b| !matches!(b, b' '..=b'~')) {
            return Err(KeyFault::NotPrintable { at });
        }
        if key.trim_ascii().is_empty() {
            return Err(KeyFault::Empty);
        }
        if key.len() > self.max_bytes {
            return Err(KeyFault::TooLong { bytes: key.len(), max: self.max_bytes });
        }
        match self.text {
            KeyText::Uuid if !is_uuid(key) => Err(KeyFault::NotUuid),
            KeyText::Uuid | KeyText::Printable => Ok(()),
        }
    }
}

/// As it is usually written: 32 hexadecimal digits in five groups.
fn is_uuid(key: &str) -> bool {
    key.len() == 36 && uuid::Uuid::try_parse(key).is_ok()
}

impl KeyFault {
    /// What was wrong with the key that stands at `place`, and what to do.
    pub(crate) fn detail(self, place: &str) -> Cow<'static, str> {
        match self {
            Self::Repeated => format!("{place} was sent more than once; send it once."),
            Self::Empty => format!("{place} is empty or blank."),
            Self::TooLong { bytes, max } => {
                format!("The key in {place} has {bytes} bytes; at most {max} are accepted.")
            }
            Self::NotPrintable { at } => {
                format!("{place} has a byte outside printable ASCII at position {at}.")
            }
            Self::NotAString => format!(
                "{place} begins with a quotation mark and is not one structured-field string \
                 (RFC 9651)."
            ),
            Self::Parameters => {
                format!("{place} has parameters after the key; send the key alone.")
            }
            Self::Ambiguous { character } => format!(
                "{place} contains `{character}`, which a bare key cannot: put the key in \
                 quotation marks."
            ),
            Self::NotUuid => {
                format!("The key in {place} is not a UUID, like {EXAMPLE}.")
            }
            Self::NotText => format!("{place} is neither a text nor a whole number."),
            Self::BodyNotJson => {
                format!("The body is not JSON, so that {place} cannot be read.")
            }
        }
        .into()
    }
}

const EXAMPLE: &str = "123e4567-e89b-42d3-a456-426614174000";

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind of fault: a rule that lets through what the provider would refuse, or a UUID in one of its
    /// other spellings as another key (H-31).
    #[test]
    fn a_rule_can_ask_for_a_uuid() {
        let rule = KeyRule { max_bytes: 255, text: KeyText::Uuid };
        assert_eq!(rule.check(EXAMPLE), Ok(()));
        for other in ["k", "123e4567e89b42d3a456426614174000", &format!("{{{EXAMPLE}}}")] {
            assert_eq!(rule.check(other), Err(KeyFault::NotUuid), "{other}");
        }
        assert_eq!(rule.check(" "), Err(KeyFault::Empty));
    }
}
