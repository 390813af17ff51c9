//! What the store is compared with.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use dashmap::{DashMap, Entry};
use idempotent::{
    CachedResponse, IdempotencyEntry, IdempotencyKey, Metadata,
    fingerprint::{DefaultFingerprintStrategy, Fingerprint, FingerprintStrategy},
    store::{IdempotencyStore as _, InsertResult, memory::MemoryStore},
};

use crate::load::Intent;

/// The same two steps on a bare map: insert a value if there is none, then put the response into it.
/// The key is shared with the caller and the value as large as a record.
#[derive(Debug, Default)]
pub(crate) struct BareMap(DashMap<Arc<str>, Box<Value>>);

#[derive(Debug)]
struct Value {
    _fingerprint: idempotency::Fingerprint,
    token: idempotency::ClaimToken,
    _moments: [u64; 6],
    response: Option<Bytes>,
}

impl BareMap {
    pub(crate) fn key(intent: &Intent) -> Arc<str> {
        [intent.key.scope_name().unwrap_or_default(), intent.key.key()].concat().into()
    }

    pub(crate) fn insert(
        &self,
        key: &Arc<str>,
        token: idempotency::ClaimToken,
        fingerprint: idempotency::Fingerprint,
    ) -> bool {
        match self.0.entry(Arc::clone(key)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Box::new(Value {
                    _fingerprint: fingerprint,
                    token,
                    _moments: [0; 6],
                    response: None,
                }));
                true
            }
        }
    }

    pub(crate) fn update(
        &self,
        key: &Arc<str>,
        token: idempotency::ClaimToken,
        response: &Bytes,
    ) -> bool {
        let Some(mut value) = self.0.get_mut(key) else {
            return false;
        };
        let own = value.token == token;
        if own {
            value.response = Some(Bytes::copy_from_slice(response));
        }
        own
    }
}

/// The memory store of the crate `idempotent`, 0.3.0.
pub(crate) struct Idempotent {
    store: MemoryStore,
    fingerprint: Fingerprint,
}

impl Idempotent {
    /// Needs a runtime. Its sweep is kept out of the measurement.
    pub(crate) fn new() -> Self {
        Self {
            store: MemoryStore::new(1_024, Duration::from_hours(1)),
            fingerprint: DefaultFingerprintStrategy.compute("/charges", b"body"),
        }
    }

    pub(crate) fn key(intent: &Intent) -> anyhow::Result<IdempotencyKey> {
        Ok(IdempotencyKey::new(&*BareMap::key(intent))?)
    }

    pub(crate) async fn claim_and_complete(
        &self,
        key: &IdempotencyKey,
        response: &Bytes,
    ) -> anyhow::Result<()> {
        let entry = IdempotencyEntry::new(self.fingerprint, Duration::from_hours(24));
        let InsertResult::Claimed { fencing_token } =
            self.store.try_insert(key, entry.clone()).await?
        else {
            anyhow::bail!("the key was there")
        };
        let response = CachedResponse {
            status_code: 201,
            metadata: Metadata::default(),
            // ours copies as well
            body: Bytes::copy_from_slice(response),
        };
        let completed = entry.complete(response);
        Ok(self.store.complete(key, completed, fencing_token).await?)
    }
}
