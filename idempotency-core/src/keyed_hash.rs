//! HMAC-SHA-256 with a key of any length.

use hmac::{Hmac, KeyInit};
use sha2::{Digest, Sha256, digest::Key};

/// Prepares the key as RFC 2104 says (hashed when longer than a block, then padded with zeros), so
/// that no length can fail.
pub(crate) fn keyed_hash(secret: &[u8]) -> Hmac<Sha256> {
    let mut block = Key::<Hmac<Sha256>>::default();
    let hashed = <[u8; 32]>::from(Sha256::digest(secret));
    let used = if secret.len() > block.len() { &hashed } else { secret };
    for (place, byte) in block.iter_mut().zip(used) {
        *place = *byte;
    }
    Hmac::new(&block)
}

#[cfg(test)]
mod tests {
    use hmac::Mac;

    use super::*;

    #[test]
    fn keys_of_any_length_are_prepared_as_rfc_2104_says() {
        for length in [0, 1, 32, 63, 64, 65, 200] {
            let secret = vec![7; length];
            let library = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
            let bytes = |mac: Hmac<Sha256>| mac.chain_update(b"x").finalize().into_bytes();
            assert_eq!(bytes(keyed_hash(&secret)), bytes(library), "{length}");
        }
    }
}
