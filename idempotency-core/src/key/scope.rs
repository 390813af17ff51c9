use std::{fmt, sync::Arc};

use super::{KeyError, error::validate};

/// Who owns a key: an account, a merchant, a tenant. Keys of two scopes never meet.
///
/// Name the principal, not the credential: after a rotated token the same account must find its own
/// keys again. A key that belongs to everybody has to say so with [`Scope::global`].
///
/// `Debug` shows nothing of the name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Scope(Option<Arc<str>>);

impl Scope {
    /// The scope called `name`.
    ///
    /// # Errors
    /// Empty, longer than 255 bytes, or with control characters.
    pub fn new(name: impl AsRef<str>) -> Result<Self, KeyError> {
        let name = name.as_ref();
        validate("scope", name)?;
        Ok(Self(Some(name.into())))
    }

    /// The scope of keys that all callers share. Two callers who choose the same key meet here, so
    /// this is only right where one party makes all the keys.
    pub const fn global() -> Self {
        Self(None)
    }

    /// The name; none for the global scope.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl TryFrom<&str> for Scope {
    type Error = KeyError;

    fn try_from(name: &str) -> Result<Self, KeyError> {
        Self::new(name)
    }
}

impl TryFrom<String> for Scope {
    type Error = KeyError;

    fn try_from(name: String) -> Result<Self, KeyError> {
        Self::new(name)
    }
}

impl TryFrom<&String> for Scope {
    type Error = KeyError;

    fn try_from(name: &String) -> Result<Self, KeyError> {
        Self::new(name)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Scope(…)" } else { "Scope(global)" })
    }
}
