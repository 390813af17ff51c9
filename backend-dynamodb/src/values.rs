use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::{
    AttemptNumber, ClaimToken, CompleteRequest, Fingerprint, Retention, machine::Now,
};

use crate::wire::{self, Item};

/// The values of an expression.
pub(crate) struct Values(pub(crate) Item);

impl Values {
    pub(crate) fn new() -> Self {
        Self(Item::with_capacity(24))
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// What the condition of an attempt on its own record compares.
    pub(crate) fn own(token: ClaimToken, attempt: AttemptNumber, now: Now) -> Self {
        Self::new()
            .with(":format", wire::number(wire::FORMAT))
            .with(":token", wire::binary(*token.as_bytes()))
            .with(":attempt", wire::number(attempt.get()))
            .with(":in_progress", wire::text(wire::IN_PROGRESS))
            .with(":binary", wire::text("B"))
            .with(":fingerprint_bytes", wire::number(Fingerprint::STORED_BYTES))
            .with(":zero", wire::number(0))
            .with(":one", wire::number(1))
            .with(":latest", wire::number(u64::MAX))
            .with(":longest_ms", wire::millis(Retention::MAX))
            .with(":longest_s", wire::seconds(Retention::MAX))
            .with(":cutoff", wire::moment(now.at.before(now.skew_bound)))
    }

    /// What a completion writes and compares.
    pub(crate) fn of_completion(request: &CompleteRequest<'_>, now: Now) -> Self {
        let expires_at = now.at.after(request.retention.get());
        Self::own(request.token, request.attempt, now)
            .with(":completed", wire::text(wire::COMPLETED))
            .with(":fingerprint", wire::binary(request.fingerprint.to_stored_bytes()))
            .with(":retention_ms", wire::millis(request.retention.get()))
            .with(":retention_s", wire::seconds(request.retention.get()))
            .with(":now", wire::moment(now.at))
            .with(":expires_at", wire::moment(expires_at))
            .with(":delete_after", wire::delete_after(expires_at, now.skew_bound))
            .with(":response", wire::binary(request.response.clone()))
    }
}
