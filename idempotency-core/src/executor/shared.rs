use std::{sync::Arc, time::Duration};

use super::{
    Event, EventKind, Measurement, Observer, Source, TracingObserver, pacer::Pacer,
    waiters::Waiters,
};
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
    observer: Arc<dyn Observer>,
    /// Whether the observer wants measurements.
    measures: bool,
    pub(super) label: &'static str,
    pub(super) waiters: Waiters,
    pub(super) pacer: Arc<Pacer>,
}

impl Shared {
    pub(super) fn new(connected: Connected) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = connected.store();
        let waiters = Waiters::new(&connected, Arc::clone(&clock));
        let pacer = Arc::new(Pacer::new(Arc::clone(&clock)));
        let observer = Arc::new(TracingObserver);
        Self { connected, store, clock, observer, measures: false, label: "", waiters, pacer }
    }

    pub(super) fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { measures: observer.measures(), observer, ..self }
    }

    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.observer)
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
        let mut event = Event::new(kind, self.source(), key);
        event.attempt = attempt;
        event.first_attempt_ago = first_attempt_ago;
        self.observer.observe(&event);
    }

    /// The instant from which to measure. None: nobody wants measurements.
    pub(super) fn measuring_since(&self) -> Option<Duration> {
        self.measures.then(|| self.clock.monotonic())
    }

    pub(super) fn measure(&self, measurement: Measurement) {
        if self.measures {
            self.observer.measure(self.source(), measurement);
        }
    }

    fn source(&self) -> Source {
        Source { store: self.store.profile().name, label: self.label }
    }
}
