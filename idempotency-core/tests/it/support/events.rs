use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use idempotency_core::{AttemptNumber, Event, EventKind, KeyDigest, Observer};

/// Remembers what the executor told.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Mutex<Vec<Heard>>>);

/// An event, and the key it is about.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    pub kind: EventKind,
    pub key: KeyDigest,
    pub attempt: Option<AttemptNumber>,
    pub first_attempt_ago: Option<Duration>,
}

impl Events {
    pub fn all(&self) -> Vec<Heard> {
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
    fn observe(&self, event: &Event<'_>) {
        let Event { kind, attempt, first_attempt_ago, .. } = *event;
        let heard = Heard { kind, key: event.key_digest(), attempt, first_attempt_ago };
        self.0.lock().unwrap().push(heard);
    }
}
