//! A store that fails as it is told, and counts how often it is asked.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;

use async_trait::async_trait;
use idempotency_core::{
    ClaimOutcome, ClaimRequest, CompleteRequest, ErrorKind, FinishOutcome, IdempotencyKey,
    IdempotencyStore, Operation, Record, ReleaseOutcome, ReleaseRequest, RenewOutcome,
    RenewRequest, StoreError, StoreProfile,
};
use idempotency_memory::MemoryStore;

/// What the store does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mood {
    Well,
    /// Every operation fails at once.
    Fails(ErrorKind),
    /// It accepts and never answers.
    Hangs,
    /// Completions take this long.
    CompletesAfter(Duration),
}

#[derive(Clone, Debug)]
pub(crate) struct FaultyStore {
    pub(crate) store: MemoryStore,
    mood: Arc<Mutex<Mood>>,
    calls: Arc<AtomicUsize>,
}

impl FaultyStore {
    pub(crate) fn new(mood: Mood) -> Self {
        Self { store: MemoryStore::new(), mood: Arc::new(Mutex::new(mood)), calls: Arc::default() }
    }

    pub(crate) fn becomes(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    async fn suffer(&self, operation: Operation) -> Result<(), StoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mood = *self.mood.lock().unwrap();
        match mood {
            Mood::Fails(kind) => Err(StoreError::new(operation, kind, "told to fail")),
            Mood::Hangs => std::future::pending().await,
            Mood::CompletesAfter(time) if operation == Operation::Complete => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Mood::Well | Mood::CompletesAfter(_) => Ok(()),
        }
    }
}

#[async_trait]
impl IdempotencyStore for FaultyStore {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        self.suffer(Operation::Claim).await?;
        self.store.claim(request).await
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        self.suffer(Operation::Complete).await?;
        self.store.complete(request).await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        self.suffer(Operation::Renew).await?;
        self.store.renew(request).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        self.suffer(Operation::Release).await?;
        self.store.release(request).await
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        self.suffer(Operation::Lookup).await?;
        self.store.lookup(key).await
    }

    fn profile(&self) -> &StoreProfile {
        self.store.profile()
    }
}
