use idempotency_core::{
    ClaimRequest, ClaimToken, Fingerprint, IdempotencyKey, Lease, Namespace, Operation, Retention,
    StorageKey, StoreError, Takeover,
    machine::{self, Write},
};

use super::{Member, Sent};
use crate::{
    store::Inner,
    wire::{self, Reply, Verdict},
};

/// A claim. A group inserts what is absent and looks at the rest; takeovers go alone.
#[derive(Debug)]
pub(crate) struct Claiming {
    key: IdempotencyKey,
    place: StorageKey,
    fingerprint: Fingerprint,
    token: ClaimToken,
    lease: Lease,
    retention: Retention,
}

impl Claiming {
    pub(crate) fn new(namespace: &Namespace, request: &ClaimRequest<'_>) -> Self {
        Self {
            key: request.key.clone(),
            place: namespace.storage_key(request.key),
            fingerprint: request.fingerprint,
            token: request.token,
            lease: request.lease,
            retention: request.retention,
        }
    }
}

impl Member for Claiming {
    const OPERATION: Operation = Operation::Claim;

    fn place(&self) -> &StorageKey {
        &self.place
    }

    fn weight(&self) -> usize {
        self.place.as_str().len()
    }

    async fn send(inner: &Inner, members: &[&Self]) -> Result<Sent, StoreError> {
        let places: Vec<_> = members.iter().map(|claim| claim.place.as_str()).collect();
        let fingerprints: Vec<_> =
            members.iter().map(|claim| claim.fingerprint.to_stored_bytes().to_vec()).collect();
        let tokens: Vec<_> = members.iter().map(|claim| wire::token(claim.token)).collect();
        let leases: Vec<_> = members.iter().map(|claim| wire::millis(claim.lease.get())).collect();
        let retentions: Vec<_> =
            members.iter().map(|claim| wire::millis(claim.retention.get())).collect();
        let query = || {
            sqlx::query(inner.statements.claim_many.safe())
                .bind(&places)
                .bind(&fingerprints)
                .bind(&tokens)
                .bind(&leases)
                .bind(&retentions)
                .bind(inner.group_lock_ms())
        };
        inner.send_for_many(Self::OPERATION, query).await
    }

    fn after(&self, reply: &Reply) -> Option<Reply> {
        if reply.verdict != Verdict::Written {
            return Some(reply.clone());
        }
        let request = ClaimRequest {
            key: &self.key,
            fingerprint: self.fingerprint,
            token: self.token,
            lease: self.lease,
            retention: self.retention,
            takeover: Takeover::Refuse,
        };
        let written = machine::claim(None, &request, reply.at.into()).ok()?;
        let Write::Put(record) = written.write else {
            return None;
        };
        Some(Reply { verdict: Verdict::Seen, record: Some(Ok(record)), ..reply.clone() })
    }
}
