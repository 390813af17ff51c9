use std::sync::{Arc, Mutex};

use idempotency_core::{Event, EventKind, Observer};

/// Remembers what the executor told.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    pub fn kinds(&self) -> Vec<EventKind> {
        self.all().into_iter().map(|event| event.kind).collect()
    }

    pub fn count(&self, kind: EventKind) -> usize {
        self.kinds().into_iter().filter(|k| *k == kind).count()
    }
}

impl Observer for Events {
    fn observe(&self, event: &Event) {
        self.0.lock().unwrap().push(*event);
    }
}
