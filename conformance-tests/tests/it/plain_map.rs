//! `CasStore` over a plain map, through the macro: the smallest harness there is.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use idempotency_conformance::{Fixture, Harness, HarnessError, Hook, Suite, unique_namespace};
use idempotency_core::{
    CasStore, Clock, ManualClock, RecordStore, StorageKey, StoreError, StoreProfile, Timestamp,
    Version, Versioned,
};

#[derive(Debug)]
pub(crate) struct PlainMap {
    records: Mutex<HashMap<String, (u64, Bytes)>>,
    clock: ManualClock,
    profile: StoreProfile,
}

#[async_trait]
impl RecordStore for PlainMap {
    async fn get(&self, key: &StorageKey) -> Result<Option<Versioned>, StoreError> {
        let records = self.records.lock().unwrap();
        let found = records.get(key.as_str()).cloned();
        Ok(found.map(|(version, value)| Versioned { value, version: Version(version) }))
    }

    async fn put_if(
        &self,
        key: &StorageKey,
        seen: Option<Version>,
        value: Bytes,
        _: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut records = self.records.lock().unwrap();
        let version = records.get(key.as_str()).map(|(version, _)| *version);
        if version.map(Version) != seen {
            return Ok(false);
        }
        records.insert(key.as_str().to_owned(), (version.unwrap_or_default() + 1, value));
        Ok(true)
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    fn profile(&self) -> &StoreProfile {
        &self.profile
    }
}

pub(crate) fn profile() -> StoreProfile {
    let mut profile = StoreProfile::new("plain map");
    profile.remembers_not_started = true;
    profile
}

pub(crate) struct PlainMapHarness {
    pub(crate) profile: StoreProfile,
}

impl Harness for PlainMapHarness {
    type Store = CasStore<PlainMap>;

    async fn fresh(&self) -> Result<Fixture<Self::Store>, HarnessError> {
        let clock = ManualClock::new();
        let map = PlainMap {
            records: Mutex::default(),
            clock: clock.clone(),
            profile: self.profile.clone(),
        };
        let namespace = unique_namespace();
        let store = CasStore::new(map).namespace(namespace.clone());
        Ok(Fixture::new(store, namespace).clock(clock))
    }

    fn profile(&self) -> StoreProfile {
        self.profile.clone()
    }

    fn leaves_out(&self) -> &'static [Hook] {
        Hook::ALL
    }
}

idempotency_conformance::conformance_tests!(PlainMapHarness { profile: profile() });

/// A store without a clock of its own: deadlines of others are over later by the skew bound (C33).
#[tokio::test]
async fn a_store_with_a_skew_bound_keeps_the_contract() {
    let mut profile = profile();
    profile.skew_bound = Duration::from_secs(1);
    let report = Suite::new(PlainMapHarness { profile }).run().await;
    assert!(report.is_green(), "{report}");
}
