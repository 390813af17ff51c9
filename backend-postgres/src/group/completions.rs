use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimToken, CompleteRequest, Fingerprint, Namespace, Operation, Retention,
    StorageKey, StoreError,
};

use super::{Member, Sent};
use crate::{
    store::Inner,
    wire::{self, Reply},
};

/// A completion. A group stores the answers of holders whose rows are free; whoever is no holder, or
/// has to wait for a lock, goes alone.
#[derive(Debug)]
pub(crate) struct Completing {
    place: StorageKey,
    token: ClaimToken,
    attempt: AttemptNumber,
    fingerprint: Fingerprint,
    response: Bytes,
    retention: Retention,
}

impl Completing {
    pub(crate) fn new(namespace: &Namespace, request: &CompleteRequest<'_>) -> Self {
        Self {
            place: namespace.storage_key(request.key),
            token: request.token,
            attempt: request.attempt,
            fingerprint: request.fingerprint,
            response: request.response.clone(),
            retention: request.retention,
        }
    }
}

impl Member for Completing {
    const OPERATION: Operation = Operation::Complete;

    fn place(&self) -> &StorageKey {
        &self.place
    }

    fn weight(&self) -> usize {
        self.response.len()
    }

    async fn send(inner: &Inner, members: &[&Self]) -> Result<Sent, StoreError> {
        let places: Vec<_> = members.iter().map(|completion| completion.place.as_str()).collect();
        let tokens: Vec<_> =
            members.iter().map(|completion| wire::token(completion.token)).collect();
        let attempts: Vec<_> =
            members.iter().map(|completion| i64::from(completion.attempt.get())).collect();
        let fingerprints: Vec<_> = members
            .iter()
            .map(|completion| completion.fingerprint.to_stored_bytes().to_vec())
            .collect();
        let responses: Vec<_> =
            members.iter().map(|completion| completion.response.as_ref()).collect();
        let retentions: Vec<_> =
            members.iter().map(|completion| wire::millis(completion.retention.get())).collect();
        let query = || {
            sqlx::query(inner.statements.complete_many.safe())
                .bind(&places)
                .bind(&tokens)
                .bind(&attempts)
                .bind(&fingerprints)
                .bind(&responses)
                .bind(&retentions)
                .bind(inner.group_lock_ms())
        };
        inner.send_for_many(Self::OPERATION, query).await
    }

    /// A repetition of the same completion, or somebody who has lost: what it finds is not in the reply.
    fn after(&self, _reply: &Reply) -> Option<Reply> {
        None
    }
}
