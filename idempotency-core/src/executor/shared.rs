use std::{sync::Arc, time::Duration};

use super::{Event, EventKind, Observer, TracingObserver, pacer::Pacer, waiters::Waiters};
use crate::{
    attempt_number::AttemptNumber,
    key::IdempotencyKey,
    store::{Connected, IdempotencyStore},
    time::{Clock, SystemClock},
};

/// What all executors over one handle share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) connected: Connected,
    pub(super) store: Arc<dyn IdempotencyStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) waiters: Waiters,
    pub(super) pacer: Arc<Pacer>,
}

impl Shared {
    pub(super) fn new(connected: Connected) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = connected.store();
        let waiters = Waiters::new(&connected, Arc::clone(&clock));
        let pacer = Arc::new(Pacer::new(Arc::clone(&clock)));
        Self { connected, store, clock, observer: Arc::new(TracingObserver), waiters, pacer }
    }

    pub(super) fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        let waiters = Waiters::new(&self.connected, Arc::clone(&clock));
        let pacer = Arc::new(Pacer::new(Arc::clone(&clock)));
        Self { clock, waiters, pacer, ..self }
    }

    /// The store itself: through the `Arc`, which is a store too, each call would be boxed twice.
    pub(super) fn store(&self) -> &dyn IdempotencyStore {
        &*self.store
    }

    pub(super) fn observe(
        &self,
        kind: EventKind,
        key: &IdempotencyKey,
        attempt: Option<AttemptNumber>,
        first_attempt_ago: Option<Duration>,
    ) {
        let key = key.digest();
        self.observer.observe(&Event { kind, key, attempt, first_attempt_ago });
    }
}
