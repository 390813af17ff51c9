//! What the tests of several modules share.

use proptest::prelude::ProptestConfig;

/// `usual` random cases, or twenty times as many with `IDEMPOTENCY_TEST=full`.
pub(crate) fn random_cases(usual: u32) -> ProptestConfig {
    let full = std::env::var("IDEMPOTENCY_TEST").is_ok_and(|value| value == "full");
    ProptestConfig::with_cases(if full { usual * 20 } else { usual })
}
