//! A service that counts what it does.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Semaphore;

use http::request::Parts;
use idempotency_core::Scope;
use idempotency_memory::MemoryStore;
use idempotency_tower::IdempotencyLayer;

/// How often a handler ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    /// Counts one run, and says which one it is.
    pub(crate) fn count(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Holds handlers until it is opened, so that what happens meanwhile does not depend on the time it takes.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Ends when the gate is open.
    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }

    /// Lets everybody pass from now on.
    pub(crate) fn open(&self) {
        self.0.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

/// The account of a bearer token `ACCOUNT` or `ACCOUNT_N`.
pub(crate) fn account(request: &Parts) -> Option<Scope> {
    let token = request.headers.get("authorization")?.to_str().ok()?;
    let token = token.strip_prefix("Bearer ")?;
    let account = token.split_once('_').map_or(token, |(account, _)| account);
    Scope::new(account).ok()
}

/// A layer over an empty store of its own.
pub(crate) fn layer() -> IdempotencyLayer {
    IdempotencyLayer::new(MemoryStore::new(), account)
}
