use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use axum::response::Response;
use idempotency::tower::CurrentAttempt;

use super::{Effect, Entry, Ledger, LedgerError};

/// Ends with the process. What is written down has happened, as with a provider far away: the answer is
/// stored by the idempotency layer afterwards.
#[derive(Debug, Default)]
pub(crate) struct MemoryLedger(Mutex<Vec<Effect>>);

#[async_trait]
impl Ledger for MemoryLedger {
    async fn write(&self, effect: &Effect) -> Result<Box<dyn Entry>, LedgerError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(effect.clone());
        Ok(Box::new(Written))
    }

    async fn effects(&self) -> Result<Vec<Effect>, LedgerError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

struct Written;

#[async_trait]
impl Entry for Written {
    async fn commit(
        self: Box<Self>,
        _attempt: Option<&CurrentAttempt>,
        response: Response,
    ) -> Result<Response, LedgerError> {
        Ok(response)
    }
}
