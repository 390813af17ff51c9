use std::fmt::Debug;

use async_trait::async_trait;

use super::StoreError;
use crate::key::IdempotencyKey;

/// Tells waiters that a key may have changed. A hint that can be lost: who waits polls as well.
#[async_trait]
pub trait Watch: Debug + Send + Sync {
    /// Begins to watch `key`. What changes after this has returned is told.
    ///
    /// # Errors
    /// The store could not answer; fall back to polling.
    async fn watch(&self, key: &IdempotencyKey) -> Result<Box<dyn Watching>, StoreError>;
}

/// A key that is being watched; dropping it ends that.
#[async_trait]
pub trait Watching: Debug + Send {
    /// Ends when the key may have changed since the last call. Cancel safe: a change is not missed.
    ///
    /// # Errors
    /// The store can no longer tell: watch again, or fall back to polling.
    async fn changed(&mut self) -> Result<(), StoreError>;
}
