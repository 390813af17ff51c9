use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};

/// The standard library's keyed hash (`SipHash`).
///
/// Clients choose the keys, so the hash has to be one that nobody can predict. It is a sixth of the
/// cost of a claim, and most of that are the single bytes that mark where a text ends. They are not
/// hashed but added to the hash: keys that differ in nothing else differ there.
#[derive(Debug, Default)]
pub(crate) struct TextHasher(RandomState);

impl TextHasher {
    pub(crate) fn hash(&self, key: &impl Hash) -> u64 {
        let mut text = TextFirst { text: self.0.build_hasher(), bytes: 0 };
        key.hash(&mut text);
        text.finish()
    }
}

struct TextFirst {
    text: DefaultHasher,
    bytes: u64,
}

impl Hasher for TextFirst {
    fn write(&mut self, bytes: &[u8]) {
        self.text.write(bytes);
    }

    fn write_u8(&mut self, byte: u8) {
        self.bytes = (self.bytes << 8) | u64::from(byte);
    }

    fn finish(&self) -> u64 {
        // an odd factor: no two values of a few bytes meet, and all of the hash takes part
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        self.text.finish() ^ self.bytes.wrapping_mul(SPREAD)
    }
}

#[cfg(test)]
mod tests {
    use idempotency_core::IdempotencyKey;

    use super::*;

    /// Kind of fault: keys that a client can make meet. The hash is another one in each store, and
    /// takes in the scope, the key, and where the one ends and the other begins.
    #[test]
    fn keys_of_two_scopes_and_two_keys_of_a_scope_hash_apart() {
        let key = |scope: &str, key: &str| IdempotencyKey::new(scope, key).unwrap();
        let (hasher, other) = (TextHasher::default(), TextHasher::default());
        let seen = [
            hasher.hash(&key("a", "1")),
            hasher.hash(&key("b", "1")),
            hasher.hash(&key("a", "2")),
            hasher.hash(&key("ab", "c")),
            hasher.hash(&key("a", "bc")),
            other.hash(&key("a", "1")),
        ];
        let distinct: std::collections::HashSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
        assert_eq!(hasher.hash(&key("a", "1")), hasher.hash(&key("a", "1")));
    }
}
