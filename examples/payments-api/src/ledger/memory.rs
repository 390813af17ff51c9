use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use axum::response::Response;
use idempotency::tower::CurrentAttempt;

use super::{Effect, Entry, Ledger, LedgerError};
use crate::webhooks::{Event, MemoryOutbox};

/// Ends with the process. What is written down has happened, as with a provider far away: the answer is
/// stored by the idempotency layer afterwards.
#[derive(Debug)]
pub(crate) struct MemoryLedger {
    effects: Mutex<Vec<Effect>>,
    outbox: Arc<MemoryOutbox>,
}

impl MemoryLedger {
    pub(crate) fn new(outbox: Arc<MemoryOutbox>) -> Self {
        Self { effects: Mutex::default(), outbox }
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn write(
        &self,
        effect: &Effect,
        event: Option<Event>,
    ) -> Result<Box<dyn Entry>, LedgerError> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).push(effect.clone());
        if let Some(event) = event {
            self.outbox.add(event);
        }
        Ok(Box::new(Written))
    }

    async fn effects(&self) -> Result<Vec<Effect>, LedgerError> {
        Ok(self.effects.lock().unwrap_or_else(PoisonError::into_inner).clone())
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
