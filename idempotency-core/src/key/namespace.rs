use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::IdempotencyKey;
use crate::keyed_hash::keyed_hash;

/// Keeps apart what several applications or tests put into one store.
///
/// It turns an [`IdempotencyKey`] into the [`StorageKey`] of its record. Without a secret the
/// storage key is readable; with one it is a keyed digest, so that nobody without the secret can
/// tell where a key is stored, and a record's place no longer tells its key.
///
/// `Debug` shows neither the secret nor more than the name.
#[derive(Clone)]
pub struct Namespace {
    name: Box<str>,
    secret: Option<Hmac<Sha256>>,
}

/// Why a namespace is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the namespace {name:?} is refused: use 1 to 64 characters out of a-z A-Z 0-9 _ . -")]
pub struct NamespaceError {
    name: String,
}

impl Namespace {
    const MAX_BYTES: usize = 64;

    /// The namespace `name`: 1 to 64 characters out of `a-z A-Z 0-9 _ . -`.
    ///
    /// # Errors
    /// Another character, empty, or longer.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NamespaceError> {
        let name = name.as_ref();
        let valid = |b: u8| is_plain(b) && b != b'~';
        if name.is_empty() || name.len() > Self::MAX_BYTES || !name.bytes().all(valid) {
            let name = name.chars().take(Self::MAX_BYTES).collect();
            return Err(NamespaceError { name });
        }
        Ok(Self { name: name.into(), secret: None })
    }

    /// The same namespace with keyed digests as storage keys. All processes that share the store
    /// need the same secret; another secret is another namespace.
    #[must_use]
    pub fn with_secret(self, secret: impl AsRef<[u8]>) -> Self {
        Self { secret: Some(keyed_hash(secret.as_ref())), ..self }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the record of `key` is kept (C34).
    pub fn storage_key(&self, key: &IdempotencyKey) -> StorageKey {
        self.place(key.scope_name().unwrap_or("").as_bytes(), key.key().as_bytes())
    }

    /// Injective for any bytes: `/` separates and is escaped inside the parts.
    fn place(&self, scope: &[u8], key: &[u8]) -> StorageKey {
        let mut text = String::with_capacity(self.name.len() + scope.len() + key.len() + 16);
        text.push_str(&self.name);
        text.push('/');
        match &self.secret {
            None => {
                escape(&mut text, scope);
                text.push('/');
                escape(&mut text, key);
            }
            Some(secret) => {
                let mut mac = secret.clone();
                mac.update(&(scope.len() as u64).to_be_bytes());
                mac.update(scope);
                mac.update(key);
                text.push('#');
                for byte in mac.finalize().into_bytes() {
                    push_hex(&mut text, byte);
                }
            }
        }
        StorageKey(text)
    }
}

impl Default for Namespace {
    /// The namespace `idempotency`.
    fn default() -> Self {
        Self { name: "idempotency".into(), secret: None }
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keyed = if self.secret.is_some() { ", keyed" } else { "" };
        write!(f, "Namespace({}{keyed})", self.name)
    }
}

/// The place of a record in a store: printable ASCII, injective in namespace, scope and key (C34).
///
/// At most 1 724 bytes, which fits `DynamoDB`'s 2 048. It has no braces, so a client cannot choose the
/// hash tag that selects a Redis Cluster slot. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageKey(String);

impl StorageKey {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key that is stored at this place of `namespace`. None when the place belongs to another
    /// namespace, is a keyed digest, or was not made by [`Namespace::storage_key`].
    pub fn decode(text: &str, namespace: &Namespace) -> Option<IdempotencyKey> {
        let rest = text.strip_prefix(namespace.name())?.strip_prefix('/')?;
        let (scope, key) = rest.split_once('/')?;
        let (scope, key) = (unescape(scope)?, unescape(key)?);
        let decoded = if scope.is_empty() {
            IdempotencyKey::new(super::Scope::global(), key)
        } else {
            IdempotencyKey::new(scope, key)
        };
        decoded.ok().filter(|key| namespace.storage_key(key).as_str() == text)
    }
}

impl fmt::Debug for StorageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StorageKey(…)")
    }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'~')
}

fn escape(text: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            push_hex(text, byte);
        }
    }
}

fn push_hex(text: &mut String, byte: u8) {
    for nibble in [byte >> 4, byte & 0xf] {
        text.push(char::from_digit(u32::from(nibble), 16).unwrap_or_default());
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            u8::try_from(digit()? * 16 + digit()?).ok()?
        } else {
            byte
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::key::Scope;

    /// Kind of fault: key composition collides (H-32). 100 000 random triples of an alphabet rich in
    /// what naive joins separate with, NUL included, over raw bytes: equal places, equal triples.
    #[test]
    fn two_different_triples_never_share_a_place() {
        let alphabet = b":_|#/{}%\0a\xff";
        let mut random = fastrand::Rng::with_seed(7);
        let mut seen = HashMap::new();
        for _ in 0..100_000 {
            let mut text = |max| {
                let length = random.usize(0..=max);
                (0..length).map(|_| alphabet[random.usize(..alphabet.len())]).collect::<Vec<_>>()
            };
            let (scope, key) = (text(4), text(4));
            let name = ["a", "a.b", "b"][random.usize(..3)];
            let place = Namespace::new(name).unwrap().place(&scope, &key);
            assert!(place.as_str().bytes().all(|b| b.is_ascii_graphic() && b != b'{'));
            let triple = (name, scope, key);
            if let Some(other) = seen.insert(place, triple.clone()) {
                assert_eq!(other, triple);
            }
        }
    }

    #[test]
    fn the_classic_pairs_do_not_meet() {
        let namespace = Namespace::default();
        let place = |scope: &str, key: &str| {
            namespace.storage_key(&IdempotencyKey::new(scope, key).unwrap())
        };
        assert_ne!(place("a:b", "c"), place("a", "b:c"));
        assert_ne!(place("a/b", "c"), place("a", "b/c"));
        assert_ne!(place("a%2f", "c"), place("a/", "c"));
        let global = IdempotencyKey::new(Scope::global(), "a").unwrap();
        assert_eq!(namespace.storage_key(&global).as_str(), "idempotency//a");
        assert_eq!(place("m 1", "{x}é").as_str(), "idempotency/m%201/%7bx%7d%c3%a9");
    }

    #[test]
    fn longest_place_fits_every_store() {
        let (name, part) = ("n".repeat(64), "é".repeat(127) + "%");
        let key = IdempotencyKey::new(part.as_str(), &part).unwrap();
        assert_eq!(Namespace::new(name).unwrap().storage_key(&key).as_str().len(), 1_596);
    }

    #[test]
    fn a_secret_hides_the_key_and_separates_namespaces() {
        let key = IdempotencyKey::new("merchant", "order-7").unwrap();
        let keyed = |secret: &str| Namespace::default().with_secret(secret).storage_key(&key);
        assert_ne!(keyed("one"), keyed("two"));
        assert_eq!(keyed("one"), keyed("one"));
        assert!(!keyed("one").as_str().contains("order"));
        let shown = format!("{:?} {:?}", Namespace::default().with_secret("hush"), keyed("hush"));
        assert_eq!(shown, "Namespace(idempotency, keyed) StorageKey(…)");
        let name = Namespace::default().with_secret("one");
        assert_eq!(StorageKey::decode(keyed("one").as_str(), &name), None);
    }

    #[test]
    fn bad_namespaces_are_refused_with_the_rule() {
        for bad in ["", "a/b", "a b", "{a}", "é", &"n".repeat(65)] {
            let error = Namespace::new(bad).unwrap_err().to_string();
            assert!(error.contains("1 to 64 characters"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_readable_place_gives_its_key_back(scope in "[^\\p{Cc}]{0,20}", key in "[^\\p{Cc}]{1,20}") {
            let scope = if scope.is_empty() { Scope::global() } else { Scope::new(scope).unwrap() };
            let key = IdempotencyKey::new(scope, key).unwrap();
            let namespace = Namespace::default();
            let place = namespace.storage_key(&key);
            prop_assert_eq!(StorageKey::decode(place.as_str(), &namespace), Some(key));
        }
    }
}
