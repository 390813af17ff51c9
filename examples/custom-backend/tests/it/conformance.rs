use bytes::Bytes;
use custom_backend::RedbRecords;
use idempotency::{
    CasStore, IdempotencyKey, ManualClock, Namespace, RecordStore, StorageKey, StoreProfile,
    Timestamp,
};
use idempotency_conformance::{
    Fixture, Harness, HarnessError, Hook, RawRecord, Written, unique_namespace,
};
use tempfile::TempDir;

/// One file; the suite keeps its cases apart by namespace.
struct RedbHarness {
    records: RedbRecords,
    clock: ManualClock,
    _directory: TempDir,
}

impl RedbHarness {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let clock = ManualClock::new();
        let records = RedbRecords::open(directory.path().join("records.redb")).unwrap();
        Self { records: records.clock(clock.clone()), clock, _directory: directory }
    }

    fn store(&self, namespace: &Namespace) -> CasStore<RedbRecords> {
        CasStore::new(self.records.clone()).namespace(namespace.clone())
    }

    async fn stored(&self, place: &StorageKey) -> Result<Bytes, HarnessError> {
        let found = self.records.get(place).await?;
        Ok(found.map(|found| found.value).unwrap_or_default())
    }
}

impl Harness for RedbHarness {
    type Store = CasStore<RedbRecords>;

    async fn fresh(&self) -> Result<Fixture<Self::Store>, HarnessError> {
        let namespace = unique_namespace();
        Ok(Fixture::new(self.store(&namespace), namespace).clock(self.clock.clone()))
    }

    fn profile(&self) -> StoreProfile {
        self.records.profile().clone()
    }

    fn leaves_out(&self) -> &'static [Hook] {
        &[Hook::Server] // there is none
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Self::Store>, HarnessError> {
        Ok(Some(self.store(namespace)))
    }

    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let place = namespace.storage_key(key);
        let value = match raw {
            RawRecord::Foreign => Bytes::from_static(b"data of another program"),
            RawRecord::Truncated => {
                let mut value = self.stored(&place).await?;
                value.truncate(value.len() / 2);
                value
            }
            RawRecord::NewerFormat => {
                let mut value = self.stored(&place).await?.to_vec();
                value[4] = u8::MAX; // the format, see the table in the core's record codec
                value.into()
            }
            RawRecord::RecordOf(other) => self.stored(&namespace.storage_key(other)).await?,
        };
        let seen = self.records.get(&place).await?.map(|found| found.version);
        let put = self.records.put_if(&place, seen, value, Timestamp::default()).await?;
        Ok(put.then_some(Written::Done))
    }
}

idempotency_conformance::conformance_tests!(RedbHarness::new());
