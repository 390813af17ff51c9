//! A durable store of your own: compare-and-swap over [`redb`], and nothing else.
//!
//! [`CasStore`](idempotency::CasStore) makes the whole contract of [`RedbRecords`]. How to get here
//! step by step is in `docs/write-your-own-backend.md`.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use idempotency::{
    Clock, ErrorKind, Operation, RecordStore, StorageKey, StoreError, StoreProfile, Survives,
    SystemClock, Timestamp, Version, Versioned,
};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

/// Version and bytes under each key.
const RECORDS: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("records");

/// Records in one file. Clones share it.
#[derive(Clone)]
pub struct RedbRecords {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    profile: StoreProfile,
}

impl RedbRecords {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// It cannot be opened, or another process has it open.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, redb::Error> {
        let database = Database::create(path)?;
        let begin = database.begin_write()?;
        begin.open_table(RECORDS)?;
        begin.commit()?;
        let mut profile = StoreProfile::new("redb");
        profile.remembers_not_started = true; // CasStore does
        profile.survives = Survives::ServerCrash;
        let clock = Arc::new(SystemClock::new());
        Ok(Self { database: Arc::new(database), clock, profile })
    }

    /// The same records, decided by another clock.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Runs what waits for the disk on a thread that may wait.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let database = Arc::clone(&self.database);
        let done = tokio::task::spawn_blocking(move || work(&database)).await;
        let failed = StoreError::new(Operation::Lookup, ErrorKind::Unexpected, "redb failed");
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(failed.with_source(error)),
            Err(error) => Err(failed.with_source(error)),
        }
    }
}

#[async_trait]
impl RecordStore for RedbRecords {
    async fn get(&self, key: &StorageKey) -> Result<Option<Versioned>, StoreError> {
        let key = key.as_str().to_owned();
        self.blocking(move |database| {
            let records = database.begin_read()?.open_table(RECORDS)?;
            Ok(records.get(key.as_str())?.map(|found| {
                let (version, value) = found.value();
                Versioned { value: Bytes::copy_from_slice(value), version: Version(version) }
            }))
        })
        .await
    }

    async fn put_if(
        &self,
        key: &StorageKey,
        seen: Option<Version>,
        value: Bytes,
        _expires_at: Timestamp, // a record may stay longer: the contract takes it as absent
    ) -> Result<bool, StoreError> {
        let key = key.as_str().to_owned();
        self.blocking(move |database| {
            // one write transaction at a time: what is read here is still there at the commit
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            {
                let mut records = transaction.open_table(RECORDS)?;
                let version = records.get(key.as_str())?.map(|found| found.value().0);
                if version.map(Version) != seen {
                    return Ok(false); // a transaction that is dropped changes nothing
                }
                records.insert(key.as_str(), (version.unwrap_or(0) + 1, &*value))?;
            }
            transaction.commit()?;
            Ok(true)
        })
        .await
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    fn profile(&self) -> &StoreProfile {
        &self.profile
    }
}

impl fmt::Debug for RedbRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbRecords").finish_non_exhaustive()
    }
}

/// The code of the chapter compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-your-own-backend.md")]
mod chapter {}
