use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;

use crate::event::Event;

/// What became of the events. It never removes duplicates: a line too many is an event that was handled
/// twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox(Arc<Mutex<Contents>>);

/// What `GET /inbox` shows.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Contents {
    /// How many deliveries came as far as the handler.
    pub(crate) begun: usize,
    pub(crate) handled: Vec<Handled>,
    /// What happened last to each object.
    pub(crate) objects: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Handled {
    pub(crate) event: String,
    pub(crate) object: String,
    pub(crate) attempt: u64,
}

impl Inbox {
    /// The number of this delivery, from 1.
    pub(crate) fn begin(&self) -> usize {
        let mut contents = self.contents();
        contents.begun += 1;
        contents.begun
    }

    /// The effect of an event.
    pub(crate) fn apply(&self, event: Event, attempt: u64) {
        let Event { name, object } = event;
        let mut contents = self.contents();
        contents.objects.insert(object.clone(), name.clone());
        contents.handled.push(Handled { event: name, object, attempt });
    }

    pub(crate) fn show(&self) -> Contents {
        self.contents().clone()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
