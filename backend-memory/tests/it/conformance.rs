use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use idempotency_conformance::{
    Fixture, Harness, HarnessError, Hook, RawRecord, Written, unique_namespace,
};
use idempotency_core::{
    Connected, IdempotencyKey, IdempotencyStore, ManualClock, Namespace, StoreProfile,
};
use idempotency_memory::MemoryStore;

/// Stores by namespace: clones of one share their records, and two never meet.
#[derive(Default)]
struct MemoryHarness(Mutex<HashMap<String, Connected>>);

impl Harness for MemoryHarness {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let (namespace, clock) = (unique_namespace(), ManualClock::new());
        let store = MemoryStore::builder().clock(clock.clone()).build().connected();
        let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stores.insert(namespace.name().to_owned(), store.clone());
        Ok(Fixture::new(store, namespace).clock(clock))
    }

    fn profile(&self) -> StoreProfile {
        MemoryStore::new().profile().clone()
    }

    fn leaves_out(&self) -> &'static [Hook] {
        &[Hook::Server] // there is none
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(stores.get(namespace.name()).cloned())
    }

    async fn write_raw(
        &self,
        _: &Namespace,
        _: &IdempotencyKey,
        _: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        // it keeps values, not bytes
        Ok(Some(Written::Impossible))
    }
}

idempotency_conformance::conformance_tests!(MemoryHarness::default());
