use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use idempotency::{Clock, SystemClock, Timestamp};
use tokio::sync::Notify;

use super::{Delivery, Event, Outbox, Outcome, State, Taken};
use crate::ledger::LedgerError;

/// Ends with the process.
#[derive(Debug)]
pub(crate) struct MemoryOutbox {
    clock: SystemClock,
    entries: Mutex<Vec<Entry>>,
    added: Notify,
}

#[derive(Debug)]
struct Entry {
    event: Event,
    delivery: Delivery,
    next_try: Timestamp,
}

impl MemoryOutbox {
    pub(crate) fn new() -> Self {
        Self { clock: SystemClock::new(), entries: Mutex::default(), added: Notify::new() }
    }

    /// Call it where the effect is written down, with nothing in between that can fail or be cancelled.
    pub(crate) fn add(&self, event: Event) {
        let id = event.id.clone();
        let delivery = Delivery { id, state: State::Waiting, tries: 0, last_failure: None };
        let next_try = self.clock.now();
        self.entries().push(Entry { event, delivery, next_try });
        self.added.notify_one();
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Outbox for MemoryOutbox {
    async fn take(&self, most: usize, hold: Duration) -> Result<Vec<Taken>, LedgerError> {
        let now = self.clock.now();
        let mut entries = self.entries();
        let mut due: Vec<_> = entries
            .iter_mut()
            .filter(|entry| entry.delivery.state == State::Waiting && entry.next_try <= now)
            .collect();
        due.sort_by_key(|entry| entry.next_try);
        let taken = due.into_iter().take(most).map(|entry| {
            entry.delivery.tries += 1;
            entry.next_try = now.after(hold);
            Taken { event: entry.event.clone(), tries: entry.delivery.tries }
        });
        Ok(taken.collect())
    }

    async fn tried(&self, taken: &Taken, outcome: Outcome) -> Result<(), LedgerError> {
        let (state, wait, last_failure) = outcome.into_parts();
        let mut entries = self.entries();
        if let Some(entry) = entries.iter_mut().rfind(|entry| entry.event.id == taken.event.id) {
            entry.delivery.state = state;
            entry.delivery.last_failure = last_failure;
            entry.next_try = self.clock.now().after(wait);
        }
        Ok(())
    }

    async fn added(&self) {
        self.added.notified().await;
    }

    async fn deliveries(&self) -> Result<Vec<Delivery>, LedgerError> {
        Ok(self.entries().iter().map(|entry| entry.delivery.clone()).collect())
    }

    fn is_durable(&self) -> bool {
        false
    }
}
