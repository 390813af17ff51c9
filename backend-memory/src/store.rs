use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use idempotency_core::{
    ClaimOutcome, ClaimRequest, CompleteRequest, Connected, ErrorKind, FinishOutcome,
    IdempotencyKey, IdempotencyStore, Operation, Record, ReleaseOutcome, ReleaseRequest,
    RenewOutcome, RenewRequest, StoreError, StoreProfile,
    machine::{self, Decision, Now},
};

use crate::{
    MemoryStoreBuilder,
    records::{Prepared, Records},
};

/// A store in the memory of this process. Clones share their records; nobody else does.
///
/// Every operation is a short critical section on one shard of the records and never waits for
/// anything else.
///
/// # Cancel safety
/// No operation awaits: once polled, it is done.
#[derive(Clone)]
pub struct MemoryStore {
    pub(crate) records: Arc<Records>,
}

/// At capacity a claim looks at this many due records, this many times, before it is refused.
const ROUNDS_FOR_ROOM: u32 = 8;
const LOOK_FOR_ROOM: usize = 64;

/// Without a runtime to sweep on, each new record lets up to this many leave: more than come in.
const SWEEP_WITHOUT_RUNTIME: usize = 2;

impl MemoryStore {
    /// A store with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Other limits, another clock.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    pub(crate) fn with(config: MemoryStoreBuilder) -> Self {
        Self { records: Arc::new(Records::new(config)) }
    }

    /// This store with the operator's verbs and sweeping.
    #[must_use]
    pub fn connected(&self) -> Connected {
        Connected::new(Arc::new(self.clone()))
            .with_admin(Arc::new(self.clone()))
            .with_sweep(Arc::new(self.clone()))
    }

    /// How many records are in memory, expired ones that have not left yet among them.
    pub fn len(&self) -> usize {
        self.records.held()
    }

    /// Whether no record is in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most records that are held at once.
    pub fn capacity(&self) -> usize {
        self.records.capacity
    }

    /// Applies a decision that may need a new record.
    fn apply_with_room<A>(
        &self,
        operation: Operation,
        key: &IdempotencyKey,
        mut prepared: Prepared,
        decide: impl Fn(Option<&Record>, Now) -> Result<Decision<A>, StoreError>,
    ) -> Result<A, StoreError> {
        for _ in 0..ROUNDS_FOR_ROOM {
            if let Ok(answer) = self.records.apply(key, &mut prepared, &decide)? {
                let sweeper = &self.records.sweeper;
                if !sweeper.ensure_running(&self.records) {
                    let _ = self.records.sweep(SWEEP_WITHOUT_RUNTIME);
                }
                return Ok(answer);
            }
            let report = self.records.sweep(LOOK_FOR_ROOM);
            if report.removed == 0 && !report.more {
                break;
            }
        }
        Err(self.full(operation))
    }

    /// Applies a decision that changes a record or nothing.
    pub(crate) fn apply<A>(
        &self,
        operation: Operation,
        key: &IdempotencyKey,
        mut prepared: Prepared,
        decide: impl FnOnce(Option<&Record>, Now) -> Decision<A>,
    ) -> Result<A, StoreError> {
        let decide = |record: Option<&Record>, now: Now| Ok(decide(record, now));
        let applied = self.records.apply(key, &mut prepared, decide)?;
        applied.map_err(|_| self.full(operation))
    }

    fn full(&self, operation: Operation) -> StoreError {
        let detail = format!(
            "the store holds its capacity of {} records and none of them is past its retention; \
             raise the capacity, shorten the retention, or limit how many keys a caller may use",
            self.capacity()
        );
        StoreError::new(operation, ErrorKind::Full, detail).without_effect()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows how many records there are, nothing of them.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl IdempotencyStore for MemoryStore {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        let prepared = Prepared::for_a_new_record();
        self.apply_with_room(Operation::Claim, request.key, prepared, |record, now| {
            machine::claim(record, &request, now)
        })
    }

    async fn complete(
        &self,
        mut request: CompleteRequest<'_>,
    ) -> Result<FinishOutcome, StoreError> {
        self.profile().check_response(&request.response)?;
        // copied before the lock is taken; no decision depends on the bytes
        let own = Bytes::copy_from_slice(&request.response);
        let prepared = Prepared::with_bytes(Some(own));
        request.response = Bytes::new();
        self.apply_with_room(Operation::Complete, request.key, prepared, |record, now| {
            Ok(machine::complete(record, &request, now))
        })
    }

    async fn renew(&self, mut request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        self.profile().check_checkpoint(request.checkpoint.as_ref())?;
        let own = request.checkpoint.as_deref().map(Bytes::copy_from_slice);
        let prepared = Prepared::with_bytes(own);
        request.checkpoint = request.checkpoint.map(|_| Bytes::new());
        self.apply(Operation::Renew, request.key, prepared, |record, now| {
            machine::renew(record, &request, now)
        })
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        let prepared = Prepared::default();
        self.apply(Operation::Release, request.key, prepared, |record, now| {
            machine::release(record, &request, now)
        })
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        Ok(self.records.lookup(key))
    }

    fn profile(&self) -> &StoreProfile {
        &self.records.profile
    }
}
