use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    key::IdempotencyKey,
    record::State,
    store::{Connected, IdempotencyStore, Watch, Watching},
    time::Clock,
};

/// Who waits for which key in this process. The waiters of one key share one watch: one task that
/// listens where the store can tell, looks now and then in any case, and wakes them all.
#[derive(Clone)]
pub(super) struct Waiters(Arc<Inner>);

struct Inner {
    store: Arc<dyn IdempotencyStore>,
    watch: Option<Arc<dyn Watch>>,
    clock: Arc<dyn Clock>,
    watched: Mutex<HashMap<IdempotencyKey, watch::Sender<()>>>,
}

/// One waiter.
#[derive(Debug)]
pub(super) struct Waiter {
    changes: watch::Receiver<()>,
    clock: Arc<dyn Clock>,
}

/// How often the store is looked at while somebody waits: soon at first, then every half second.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const SLOWEST_LOOK: Duration = Duration::from_millis(500);
/// A look that takes longer is given up.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

impl Waiters {
    pub(super) fn new(connected: &Connected, clock: Arc<dyn Clock>) -> Self {
        let (store, watch) = (connected.store(), connected.watch());
        Self(Arc::new(Inner { store, watch, clock, watched: Mutex::default() }))
    }

    /// Begins to wait: what changes after this is not missed.
    pub(super) fn wait_for(&self, key: &IdempotencyKey) -> Waiter {
        let clock = Arc::clone(&self.0.clock);
        let mut watched = self.0.watched();
        if let Some(sender) = watched.get(key) {
            return Waiter { changes: sender.subscribe(), clock };
        }
        let (sender, changes) = watch::channel(());
        watched.insert(key.clone(), sender.clone());
        // a runtime that ends drops the task here, and that takes the lock
        drop(watched);
        let look = Look { inner: Arc::clone(&self.0), key: key.clone(), sender };
        tokio::spawn(look.run());
        Waiter { changes, clock }
    }

    /// Tells the waiters of `key` that it has changed.
    pub(super) fn wake(&self, key: &IdempotencyKey) {
        if let Some(sender) = self.0.watched().get(key) {
            sender.send_replace(());
        }
    }
}

impl Inner {
    fn watched(&self) -> MutexGuard<'_, HashMap<IdempotencyKey, watch::Sender<()>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").field("keys", &self.0.watched().len()).finish_non_exhaustive()
    }
}

impl Waiter {
    /// Ends when the key may have changed, and after `at_most`.
    pub(super) async fn changed(&mut self, at_most: Duration) {
        let sleep = self.clock.sleep(at_most);
        tokio::select! {
            biased;
            changed = self.changes.changed() => if changed.is_err() {
                // the watch ended with its runtime: look now and then without it
                self.clock.sleep(at_most.min(SLOWEST_LOOK)).await;
            },
            () = sleep => {}
        }
    }
}

/// The task that looks at one key for all its waiters.
struct Look {
    inner: Arc<Inner>,
    key: IdempotencyKey,
    sender: watch::Sender<()>,
}

impl Look {
    async fn run(self) {
        let mut told = self.listen().await;
        let mut pause = FIRST_LOOK;
        loop {
            let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            tokio::select! {
                biased;
                () = self.sender.closed() => if self.end() { return },
                () = changed(&mut told) => pause = FIRST_LOOK,
                () = self.inner.clock.sleep(jittered) => pause = (pause * 3 / 2).min(SLOWEST_LOOK),
            }
            if !self.is_running().await {
                self.sender.send_replace(());
            }
        }
    }

    /// Where the store can tell; a failure, and a store that does not answer, leave polling.
    async fn listen(&self) -> Option<Box<dyn Watching>> {
        let watch = self.inner.watch.as_ref()?;
        tokio::select! {
            biased;
            watching = watch.watch(&self.key) => watching.ok(),
            () = self.inner.clock.sleep(LONGEST_LOOK) => None,
        }
    }

    /// Whether the key is still in progress; a lease that has ended is the waiters' own affair. A
    /// store that does not answer says nothing new.
    async fn is_running(&self) -> bool {
        let record = tokio::select! {
            record = self.inner.store.lookup(&self.key) => record,
            () = self.inner.clock.sleep(LONGEST_LOOK) => return true,
        };
        match record {
            Ok(Some(record)) => matches!(record.state, State::InProgress { .. }),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Ends the watch unless somebody has begun to wait meanwhile.
    fn end(&self) -> bool {
        let mut watched = self.inner.watched();
        let over = self.sender.receiver_count() == 0;
        if over {
            watched.remove(&self.key);
        }
        over
    }
}

impl Drop for Look {
    /// Also when the runtime ends: the next waiter starts a new watch.
    fn drop(&mut self) {
        let mut watched = self.inner.watched();
        if watched.get(&self.key).is_some_and(|sender| sender.same_channel(&self.sender)) {
            watched.remove(&self.key);
        }
    }
}

/// Ends when the store tells of a change. From a failure on only polling is left.
async fn changed(told: &mut Option<Box<dyn Watching>>) {
    match told {
        Some(watching) => {
            if watching.changed().await.is_err() {
                *told = None;
            }
        }
        None => std::future::pending().await,
    }
}
