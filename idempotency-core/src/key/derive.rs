use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{IdempotencyKey, KeyError, Scope};
use crate::token::{ClaimToken, RandomSourceError};

/// Keys made by us are UUIDs in text: 36 characters, which every known provider accepts.
impl IdempotencyKey {
    /// A fresh random key (UUID v4). Keep it with the operation: a retry must use the same one.
    ///
    /// # Errors
    /// The operating system's random source failed.
    pub fn random(scope: &Scope) -> Result<Self, RandomSourceError> {
        let random = ClaimToken::random()?;
        let uuid = uuid::Builder::from_random_bytes(*random.as_bytes()).into_uuid();
        Ok(Self::from_uuid(scope, uuid))
    }

    /// A fresh key that sorts by the time it was made (UUID v7), for stores that keep keys in order.
    /// It tells its time of making to whoever sees it.
    pub fn ordered(scope: &Scope) -> Self {
        Self::from_uuid(scope, Uuid::now_v7())
    }

    /// The key that stands for `parts`: the same parts give the same key (UUID v8 of a SHA-256 over
    /// the length-prefixed parts), for example an order number and the kind of operation.
    ///
    /// ```
    /// use idempotency_core::{IdempotencyKey, Scope};
    ///
    /// let scope = Scope::new("merchant_42")?;
    /// let key = IdempotencyKey::derived(&scope, ["order-7", "refund"]);
    /// assert_eq!(key, IdempotencyKey::derived(&scope, ["order-7", "refund"]));
    /// assert_ne!(key, IdempotencyKey::derived(&scope, ["order-", "7refund"]));
    /// # Ok::<(), idempotency_core::KeyError>(())
    /// ```
    pub fn derived<P: AsRef<[u8]>>(scope: &Scope, parts: impl IntoIterator<Item = P>) -> Self {
        Self::from_uuid(scope, hashed("derived", parts))
    }

    /// The key for one call downstream, made while working under this key: the same `step` gives the
    /// same key in each attempt, and other keys or scopes give other ones.
    ///
    /// # Errors
    /// The scope is refused, as in [`IdempotencyKey::new`].
    pub fn child<S>(&self, scope: S, step: &str) -> Result<Self, KeyError>
    where
        S: TryInto<Scope>,
        KeyError: From<S::Error>,
    {
        let parts = [self.scope_name().unwrap_or(""), self.key(), step];
        Ok(Self::from_uuid(&scope.try_into()?, hashed("child", parts)))
    }

    fn from_uuid(scope: &Scope, uuid: Uuid) -> Self {
        Self::join(scope, &uuid.to_string())
    }
}

fn hashed<P: AsRef<[u8]>>(purpose: &str, parts: impl IntoIterator<Item = P>) -> Uuid {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    add(purpose.as_bytes());
    for part in parts {
        add(part.as_ref());
    }
    let digest = <[u8; 32]>::from(hash.finalize());
    Uuid::new_v8(digest.first_chunk().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_keys_are_valid_and_distinct() {
        let scope = Scope::new("s").unwrap();
        let keys = [
            IdempotencyKey::random(&scope).unwrap(),
            IdempotencyKey::random(&scope).unwrap(),
            IdempotencyKey::ordered(&scope),
            IdempotencyKey::ordered(&scope),
            IdempotencyKey::derived(&scope, ["a", "b"]),
            IdempotencyKey::derived(&scope, ["ab"]),
            IdempotencyKey::derived(&scope, ["", "ab"]),
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        for key in &keys {
            assert_eq!(key.key().len(), 36);
            assert!(IdempotencyKey::new("s", key.key()).is_ok());
        }
        let (earlier, later) = (keys[2].key(), keys[3].key());
        assert!(earlier < later, "UUID v7 sorts by time: {earlier} {later}");
    }

    /// Pinned: a derived key that changed with a release would run the operation again.
    #[test]
    fn derived_and_child_keys_never_change() {
        let scope = Scope::new("s").unwrap();
        let derived = IdempotencyKey::derived(&scope, ["order-7", "refund"]);
        assert_eq!(derived.key(), "504e84d5-f007-81cf-b21f-2f9e7ef8351e");
        let child = derived.child("provider", "capture").unwrap();
        assert_eq!(
            (child.scope_name(), child.key()),
            (Some("provider"), "e276194f-45b1-895b-beaf-75cde6c6d3ae")
        );
        assert_ne!(child, derived.child("provider", "capture2").unwrap());
    }
}
