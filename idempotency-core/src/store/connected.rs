use std::{fmt, sync::Arc, time::Duration};

use super::{Doctor, IdempotencyStore, Schema, StoreAdmin, Sweep, Sweeper, Watch};

/// A store and what else it can do, in one cheap handle.
#[derive(Clone)]
pub struct Connected {
    store: Arc<dyn IdempotencyStore>,
    admin: Option<Arc<dyn StoreAdmin>>,
    sweep: Option<Arc<dyn Sweep>>,
    watch: Option<Arc<dyn Watch>>,
    schema: Option<Arc<dyn Schema>>,
    doctor: Option<Arc<dyn Doctor>>,
}

impl Connected {
    /// A store that can do nothing else.
    pub fn new(store: Arc<dyn IdempotencyStore>) -> Self {
        Self { store, admin: None, sweep: None, watch: None, schema: None, doctor: None }
    }

    /// Adds the operator's verbs.
    #[must_use]
    pub fn with_admin(self, admin: Arc<dyn StoreAdmin>) -> Self {
        Self { admin: Some(admin), ..self }
    }

    /// Adds sweeping.
    #[must_use]
    pub fn with_sweep(self, sweep: Arc<dyn Sweep>) -> Self {
        Self { sweep: Some(sweep), ..self }
    }

    /// Adds telling waiters.
    #[must_use]
    pub fn with_watch(self, watch: Arc<dyn Watch>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Adds setting up.
    #[must_use]
    pub fn with_schema(self, schema: Arc<dyn Schema>) -> Self {
        Self { schema: Some(schema), ..self }
    }

    /// Adds examining the server.
    #[must_use]
    pub fn with_doctor(self, doctor: Arc<dyn Doctor>) -> Self {
        Self { doctor: Some(doctor), ..self }
    }

    /// The store.
    pub fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::clone(&self.store)
    }

    /// The operator's verbs, where the store has them.
    pub fn admin(&self) -> Option<Arc<dyn StoreAdmin>> {
        self.admin.clone()
    }

    /// Sweeping, where the store needs it or allows it.
    pub fn sweep(&self) -> Option<Arc<dyn Sweep>> {
        self.sweep.clone()
    }

    /// Sweeps in the background every `pause`, until the value is dropped. None: expired records leave
    /// this store by themselves.
    pub fn sweep_every(&self, pause: Duration) -> Option<Sweeper> {
        if self.store.profile().expires_by_itself {
            return None;
        }
        self.sweep().map(|sweep| Sweeper::start(sweep, pause))
    }

    /// Telling waiters, where the store can.
    pub fn watch(&self) -> Option<Arc<dyn Watch>> {
        self.watch.clone()
    }

    /// Setting up, where the store needs it.
    pub fn schema(&self) -> Option<Arc<dyn Schema>> {
        self.schema.clone()
    }

    /// Examining the server, where there is one.
    pub fn doctor(&self) -> Option<Arc<dyn Doctor>> {
        self.doctor.clone()
    }
}

/// Any store can stand where a [`Connected`] is wanted; it then can do nothing else.
impl<S: IdempotencyStore + 'static> From<S> for Connected {
    fn from(store: S) -> Self {
        Self::new(Arc::new(store))
    }
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").field("store", &self.store).finish_non_exhaustive()
    }
}
