use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use idempotency_core::{
    Clock, RecordStore, StorageKey, StoreError, StoreProfile, SystemClock, Timestamp, Version,
    Versioned,
};

/// Bytes in a map; every call lets other tasks in first. Clones share.
#[derive(Clone, Debug)]
pub struct MapRecords {
    values: Arc<Mutex<HashMap<StorageKey, (Bytes, u64)>>>,
    clock: Arc<dyn Clock>,
    profile: StoreProfile,
}

impl MapRecords {
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        let mut profile = StoreProfile::new("map");
        profile.max_response_bytes = 1_000;
        profile.max_checkpoint_bytes = 100;
        profile.remembers_not_started = true;
        Self { values: Arc::default(), clock: Arc::new(clock), profile }
    }

    /// The raw bytes of all records.
    pub fn raw(&self) -> HashMap<StorageKey, Bytes> {
        let values = self.values.lock().unwrap();
        values.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }

    /// Replaces the raw bytes of all records.
    pub fn overwrite_all(&self, raw: &Bytes) {
        for (value, version) in self.values.lock().unwrap().values_mut() {
            *value = raw.clone();
            *version += 1;
        }
    }

    /// Loses everything, as a failover to an empty replica does.
    pub fn lose_all(&self) {
        self.values.lock().unwrap().clear();
    }
}

impl Default for MapRecords {
    fn default() -> Self {
        Self::with_clock(SystemClock::new())
    }
}

#[async_trait]
impl RecordStore for MapRecords {
    async fn get(&self, key: &StorageKey) -> Result<Option<Versioned>, StoreError> {
        tokio::task::yield_now().await;
        let values = self.values.lock().unwrap();
        let found = values
            .get(key)
            .map(|(value, version)| Versioned { value: value.clone(), version: Version(*version) });
        Ok(found)
    }

    async fn put_if(
        &self,
        key: &StorageKey,
        seen: Option<Version>,
        value: Bytes,
        _expires_at: Timestamp,
    ) -> Result<bool, StoreError> {
        tokio::task::yield_now().await;
        let mut values = self.values.lock().unwrap();
        let current = values.get(key).map(|(_, version)| Version(*version));
        let unchanged = current == seen;
        if unchanged {
            values.insert(key.clone(), (value, seen.map_or(0, |Version(version)| version + 1)));
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
