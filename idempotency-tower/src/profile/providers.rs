//! One function a provider. Where a provider is silent, the row says nothing and our default holds.

use super::{Fact, Facts, Profile};

impl Profile {
    /// draft-ietf-httpapi-idempotency-key-header-07: `Idempotency-Key`, 400 for a missing or unusable
    /// key, 422 for a mismatch, 409 while the first request runs.
    ///
    /// Where the draft is silent: keys of at most 255 bytes on POST, PUT, PATCH and DELETE, optional;
    /// the executor's retention and policy; 409 for an unknown outcome and 410 for an answer that was
    /// not kept; the markers `Idempotent-Replayed: true` and `Idempotency-Expires`.
    pub fn ietf() -> Self {
        let facts = Facts {
            documented: &[
                Fact::KeySource,
                Fact::KeyMissing,
                Fact::Mismatch,
                Fact::InProgress,
                Fact::Stored,
            ],
            source: "https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/",
            notes: &[],
        };
        Self::defaults("ietf", facts)
    }
}
