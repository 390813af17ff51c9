use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use super::{StoreError, StoreProfile};
use crate::{key::StorageKey, time::Timestamp};

/// All that [`CasStore`](super::CasStore) asks of a store: bytes under a key, replaced only when
/// nobody else has replaced them.
///
/// Its errors need not know for which operation it is asked: `CasStore` says that.
#[async_trait]
pub trait RecordStore: Debug + Send + Sync {
    /// The bytes under `key` with their version, or none; from the primary, never a stale replica.
    ///
    /// # Errors
    /// The store could not answer.
    async fn get(&self, key: &StorageKey) -> Result<Option<Versioned>, StoreError>;

    /// Puts `value` under `key` if the version there is still `seen` (none: nothing is there), in one
    /// atomic step. Answers whether it did. The store may drop the value after `expires_at`, not
    /// earlier.
    ///
    /// # Errors
    /// The store could not answer. The effect must be unknown when the value may have been put.
    async fn put_if(
        &self,
        key: &StorageKey,
        seen: Option<Version>,
        value: Bytes,
        expires_at: Timestamp,
    ) -> Result<bool, StoreError>;

    /// The moment on the store's clock: the same clock for everybody who uses the store (C33).
    ///
    /// # Errors
    /// The store could not answer.
    async fn now(&self) -> Result<Timestamp, StoreError>;

    /// What the store promises. The limits are those of the response and the checkpoint: a value is
    /// up to [`Record::OVERHEAD_BYTES`](crate::Record::OVERHEAD_BYTES) longer.
    fn profile(&self) -> &StoreProfile;
}

#[async_trait]
impl<R: RecordStore + ?Sized> RecordStore for Arc<R> {
    async fn get(&self, key: &StorageKey) -> Result<Option<Versioned>, StoreError> {
        (**self).get(key).await
    }

    async fn put_if(
        &self,
        key: &StorageKey,
        seen: Option<Version>,
        value: Bytes,
        expires_at: Timestamp,
    ) -> Result<bool, StoreError> {
        (**self).put_if(key, seen, value, expires_at).await
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        (**self).now().await
    }

    fn profile(&self) -> &StoreProfile {
        (**self).profile()
    }
}

/// Bytes as they were read, and which version they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The bytes.
    pub value: Bytes,
    /// Their version.
    pub version: Version,
}

/// Names one state of a value; changes with every put and never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub u64);
