use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::{KeyDigest, KeyError, Scope, error::validate};

/// A client's name for one intended operation, within a [`Scope`].
///
/// 1 to 255 bytes of UTF-8 without control characters, compared byte for byte. Cheap to clone.
/// `Debug` shows a digest, never the key or the scope.
///
/// ```
/// use idempotency_core::{IdempotencyKey, Scope};
///
/// let key = IdempotencyKey::new("merchant_42", "order-7")?;
/// assert_ne!(key, IdempotencyKey::new("merchant_43", "order-7")?);
/// assert_ne!(key, IdempotencyKey::new(Scope::global(), "order-7")?);
/// assert!(!format!("{key:?}").contains("order-7"));
/// # Ok::<(), idempotency_core::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Scope and key in one allocation: stores keep millions of these.
    joined: Arc<str>,
    /// Where the key begins; 0 for the global scope, whose name is empty.
    scope_bytes: u8,
}

impl IdempotencyKey {
    /// The key `key` of `scope`, a [`Scope`] or its name.
    ///
    /// # Errors
    /// The scope or the key is empty, longer than 255 bytes, or has control characters.
    pub fn new<S>(scope: S, key: impl AsRef<str>) -> Result<Self, KeyError>
    where
        S: TryInto<Scope>,
        KeyError: From<S::Error>,
    {
        let key = key.as_ref();
        validate("key", key)?;
        Ok(Self::join(&scope.try_into()?, key))
    }

    /// Joins parts that are known to be valid.
    pub(super) fn join(scope: &Scope, key: &str) -> Self {
        let name = scope.name().unwrap_or("");
        let scope_bytes = u8::try_from(name.len()).unwrap_or(u8::MAX);
        Self { joined: [name, key].concat().into(), scope_bytes }
    }

    /// The key, as the client sent it.
    pub fn key(&self) -> &str {
        self.joined.get(usize::from(self.scope_bytes)..).unwrap_or_default()
    }

    /// The name of its scope; none for the global scope.
    pub fn scope_name(&self) -> Option<&str> {
        self.joined.get(..usize::from(self.scope_bytes)).filter(|name| !name.is_empty())
    }

    /// The digest that stands for this key in logs.
    pub fn digest(&self) -> KeyDigest {
        KeyDigest::of(self)
    }
}

/// The text in one piece, which is most of the cost with a keyed hash. Where the scope ends is left to
/// `Eq`: only keys that differ in nothing else share a hash.
impl Hash for IdempotencyKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.joined.as_bytes());
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({})", self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind of fault: an empty or missing key used as a key (H-28), and over-long keys.
    #[test]
    fn the_rule_is_1_to_255_bytes_without_control_characters() {
        let longest = "k".repeat(255);
        let wide = "\u{e9}".repeat(128);
        for good in ["k", "a b", "ключ", "🔑", "\"quoted\"", "a:b/c%d{e}", longest.as_str()] {
            let key = IdempotencyKey::new("s", good).unwrap();
            assert_eq!((key.scope_name(), key.key()), (Some("s"), good));
        }
        let cases = [
            ("", KeyError::Empty { what: "key" }),
            (wide.as_str(), KeyError::TooLong { what: "key", bytes: 256 }),
            ("a\tb", KeyError::ControlCharacter { what: "key", character: '\t', at: 1 }),
            ("é\0", KeyError::ControlCharacter { what: "key", character: '\0', at: 2 }),
            ("\u{85}", KeyError::ControlCharacter { what: "key", character: '\u{85}', at: 0 }),
        ];
        for (bad, error) in cases {
            assert_eq!(IdempotencyKey::new("s", bad), Err(error));
        }
        assert_eq!(IdempotencyKey::new("", "k"), Err(KeyError::Empty { what: "scope" }));
        assert!(IdempotencyKey::new(Scope::global(), "k").is_ok());
    }

    /// Kind of fault: key space shared by all callers (H-33), scope and key glued together (H-32).
    #[test]
    fn keys_of_two_scopes_never_meet() {
        let key = |scope: &str, key: &str| IdempotencyKey::new(scope, key).unwrap();
        assert_ne!(key("ab", "c"), key("a", "bc"));
        assert_ne!(IdempotencyKey::new(Scope::global(), "ab").unwrap(), key("a", "b"));
        assert_eq!(key("a", "b"), key("a", "b"));
    }

    #[test]
    fn errors_and_debug_never_show_key_or_scope() {
        let key = IdempotencyKey::new("secret-scope", "secret-key").unwrap();
        let scope = Scope::new("secret-scope").unwrap();
        let error = IdempotencyKey::new("secret-scope", "secret-key\n").unwrap_err();
        for shown in [format!("{key:?}"), format!("{scope:?}"), format!("{error} {error:?}")] {
            assert!(!shown.contains("secret"), "{shown}");
        }
    }
}
