use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use idempotency_conformance::{
    Fixture, Harness, HarnessError, Hook, RawRecord, Written, unique_namespace,
};
use idempotency_core::{Connected, IdempotencyKey, ManualClock, Namespace, StoreProfile};

use super::{
    rules::Rules,
    store::{LabStore, Server},
};

/// A server of the laboratory, with every hook but the network.
pub(crate) struct LabHarness {
    rules: Rules,
    server: Arc<Server>,
    clocks: Mutex<HashMap<String, ManualClock>>,
    connections: AtomicUsize,
}

impl LabHarness {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            server: Arc::default(),
            clocks: Mutex::default(),
            connections: AtomicUsize::new(0),
        }
    }

    fn connect(&self, namespace: &Namespace) -> LabStore {
        let mut clocks = self.clocks.lock().unwrap();
        let clock = clocks.entry(namespace.name().to_owned()).or_default();
        LabStore {
            rules: self.rules,
            server: Arc::clone(&self.server),
            namespace: namespace.clone(),
            clock: clock.clone(),
            connection: self.connections.fetch_add(1, Ordering::Relaxed),
            profile: Harness::profile(self),
        }
    }
}

fn with_all_it_can(store: LabStore) -> Connected {
    let store = Arc::new(store);
    Connected::new(Arc::<LabStore>::clone(&store))
        .with_sweep(Arc::<LabStore>::clone(&store))
        .with_watch(store)
}

impl Harness for LabHarness {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let namespace = unique_namespace();
        let store = self.connect(&namespace);
        let clock = store.clock.clone();
        Ok(Fixture::new(with_all_it_can(store), namespace).clock(clock))
    }

    fn profile(&self) -> StoreProfile {
        let mut profile = StoreProfile::new("laboratory");
        profile.remembers_not_started = true;
        // small enough to be quick, large enough for the sizes that the suite tries
        profile.max_response_bytes = 100_000;
        profile.max_checkpoint_bytes = 2_000;
        profile
    }

    fn leaves_out(&self) -> &'static [Hook] {
        &[Hook::Server]
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        Ok(Some(with_all_it_can(self.connect(namespace))))
    }

    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let at = |key| (self.rules.place)(namespace, key);
        let stored = |key| self.server.records.lock().unwrap().get(&at(key)).cloned();
        let value = match raw {
            RawRecord::Foreign => Bytes::from_static(b"{\"visits\": 7}"),
            RawRecord::Truncated => stored(key).unwrap().slice(..100),
            RawRecord::NewerFormat => {
                let mut bytes = stored(key).unwrap().to_vec();
                bytes[4] = 200;
                bytes.into()
            }
            RawRecord::RecordOf(other) => stored(other).unwrap(),
        };
        self.server.put(&at(key), Some(value));
        Ok(Some(Written::Done))
    }
}
