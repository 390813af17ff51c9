use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};

/// The standard library's keyed hash (`SipHash`), over the text of a key alone.
///
/// Clients choose the keys, so the hash has to be one that nobody can predict. It is a sixth of the
/// cost of a claim, and most of that are the single bytes that mark where a text ends. They are left
/// out: keys that differ in nothing else meet in the table, and are told apart there.
#[derive(Debug, Default)]
pub(crate) struct TextHasher(RandomState);

impl TextHasher {
    pub(crate) fn hash(&self, key: &impl Hash) -> u64 {
        let mut text = TextOnly(self.0.build_hasher());
        key.hash(&mut text);
        text.finish()
    }
}

struct TextOnly(DefaultHasher);

impl Hasher for TextOnly {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use idempotency_core::IdempotencyKey;

    use super::*;

    /// Kind of fault: keys that a client can make meet. The hash is another one in each store, and
    /// takes in the scope as well as the key.
    #[test]
    fn keys_of_two_scopes_and_two_keys_of_a_scope_hash_apart() {
        let key = |scope: &str, key: &str| IdempotencyKey::new(scope, key).unwrap();
        let (hasher, other) = (TextHasher::default(), TextHasher::default());
        let seen = [
            hasher.hash(&key("a", "1")),
            hasher.hash(&key("b", "1")),
            hasher.hash(&key("a", "2")),
            other.hash(&key("a", "1")),
        ];
        let distinct: std::collections::HashSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
        assert_eq!(hasher.hash(&key("a", "1")), hasher.hash(&key("a", "1")));
    }
}
