use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idempotency::{Clock, SystemClock};
use serde::Serialize;
use tokio::sync::Notify;

use super::event::Event;
use crate::ledger::Effect;

/// The events, from the moment their effect is in the ledger. A replay has no effect, so it has no event.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: SystemClock,
    entries: Mutex<Vec<Entry>>,
    /// There are entries that nobody has taken.
    added: Notify,
}

#[derive(Debug)]
struct Entry {
    event: Event,
    delivery: Delivery,
    is_taken: bool,
}

/// What became of an event so far.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Delivery {
    id: String,
    state: State,
    tries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Waiting,
    Delivered,
    GivenUp,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        let (entries, added) = (Mutex::default(), Notify::new());
        Self(Arc::new(Inner { clock: SystemClock::new(), entries, added }))
    }

    /// Puts the effect's event in. Call it where the effect is entered into the ledger, with nothing in
    /// between that can fail or be cancelled.
    pub(crate) fn add(&self, effect: &Effect) {
        let event = match Event::of(effect, self.0.clock.now()) {
            None => return,
            Some(Ok(event)) => event,
            Some(Err(error)) => {
                tracing::error!(%error, effect = effect.id, "the event cannot be written as JSON");
                return;
            }
        };
        let id = event.id.clone();
        let delivery = Delivery { id, state: State::Waiting, tries: 0, last_failure: None };
        self.entries().push(Entry { event, delivery, is_taken: false });
        self.0.added.notify_one();
    }

    /// All events, the oldest first.
    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.entries().iter().map(|entry| entry.delivery.clone()).collect()
    }

    /// How many events are neither delivered nor given up.
    pub(super) fn waiting(&self) -> usize {
        let entries = self.entries();
        entries.iter().filter(|entry| entry.delivery.state == State::Waiting).count()
    }

    /// Those that nobody has taken: from now on they are the caller's.
    pub(super) fn take(&self) -> Vec<Event> {
        let mut entries = self.entries();
        let new = entries.iter_mut().filter(|entry| !entry.is_taken);
        new.map(|entry| {
            entry.is_taken = true;
            entry.event.clone()
        })
        .collect()
    }

    /// Ends when there is something to take.
    pub(super) async fn added(&self) {
        self.0.added.notified().await;
    }

    /// One more try was made.
    pub(super) fn tried(&self, event: &Event, state: State, failure: Option<String>) {
        let mut entries = self.entries();
        if let Some(entry) = entries.iter_mut().rfind(|entry| entry.event.id == event.id) {
            let tries = entry.delivery.tries + 1;
            let id = event.id.clone();
            entry.delivery = Delivery { id, state, tries, last_failure: failure };
        }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
