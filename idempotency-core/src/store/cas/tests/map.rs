use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    Clock, ManualClock, RecordStore, StorageKey, StoreError, StoreProfile, Timestamp, Version,
    Versioned,
};

/// A map of bytes with versions, and nothing else. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct MapRecords {
    clock: ManualClock,
    values: Arc<Mutex<HashMap<StorageKey, (Versioned, Timestamp)>>>,
    versions: Arc<AtomicU64>,
    calls: Arc<AtomicUsize>,
    profile: StoreProfile,
}

impl MapRecords {
    pub(super) fn new(clock: ManualClock) -> Self {
        Self {
            clock,
            values: Arc::default(),
            versions: Arc::default(),
            calls: Arc::default(),
            profile: StoreProfile::new("map"),
        }
    }

    pub(super) fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// How often the store was asked for or given bytes.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// The bytes there, their version and their expiry.
    pub(super) fn stored(&self, key: &StorageKey) -> Option<(Versioned, Timestamp)> {
        self.values.lock().unwrap().get(key).cloned()
    }

    /// Puts `value` there, whatever is there.
    pub(super) fn overwrite(&self, key: &StorageKey, value: Bytes) {
        let version = self.next_version();
        let stored = (Versioned { value, version }, Timestamp::default());
        self.values.lock().unwrap().insert(key.clone(), stored);
    }

    fn next_version(&self) -> Version {
        Version(self.versions.fetch_add(1, Ordering::Relaxed))
    }
}

#[async_trait]
impl RecordStore for MapRecords {
    async fn get(&self, key: &StorageKey) -> Result<Option<Versioned>, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let found = self.stored(key).map(|(stored, _)| stored);
        // as over a network: others come between a get and the put that follows it
        tokio::task::yield_now().await;
        Ok(found)
    }

    async fn put_if(
        &self,
        key: &StorageKey,
        seen: Option<Version>,
        value: Bytes,
        expires_at: Timestamp,
    ) -> Result<bool, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let version = self.next_version();
        let mut values = self.values.lock().unwrap();
        let unchanged = values.get(key).map(|(stored, _)| stored.version) == seen;
        if unchanged {
            let stored = (Versioned { value, version }, expires_at);
            values.insert(key.clone(), stored);
        }
        Ok(unchanged)
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    fn profile(&self) -> &StoreProfile {
        &self.profile
    }
}
