use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::{self, Handle},
    sync::watch,
};

use crate::{
    key::IdempotencyKey,
    record::State,
    store::{Connected, IdempotencyStore, Watch, Watching},
    time::Clock,
};

/// Who waits for which key in this process. The waiters of one key in one runtime share one watch: one
/// task that listens where the store can tell, looks now and then in any case, and wakes them all.
#[derive(Clone)]
pub(super) struct Waiters(Arc<Inner>);

struct Inner {
    store: Arc<dyn IdempotencyStore>,
    watch: Option<Arc<dyn Watch>>,
    clock: Arc<dyn Clock>,
    watched: Mutex<Watched>,
}

/// Nobody knows of another runtime whether it is still driven, so each has a watch of its own.
type Watched = HashMap<IdempotencyKey, Vec<(runtime::Id, watch::Sender<()>)>>;

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
        let runtime = Handle::current();
        let mut watched = self.0.watched();
        let mut of_key = watched.get(key).into_iter().flatten();
        if let Some((_, sender)) = of_key.find(|(id, _)| *id == runtime.id()) {
            return Waiter { changes: sender.subscribe(), clock };
        }
        let (sender, changes) = watch::channel(());
        watched.entry(key.clone()).or_default().push((runtime.id(), sender.clone()));
        // a runtime that ends drops the task here, and that takes the lock
        drop(watched);
        let look = Look { inner: Arc::clone(&self.0), key: key.clone(), sender };
        runtime.spawn(look.run());
        Waiter { changes, clock }
    }

    /// Tells the waiters of `key` that it has changed.
    pub(super) fn wake(&self, key: &IdempotencyKey) {
        for (_, sender) in self.0.watched().get(key).into_iter().flatten() {
            sender.send_replace(());
        }
    }
}

impl Inner {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget(watched: &mut Watched, key: &IdempotencyKey, gone: &watch::Sender<()>) {
    if let Some(of_key) = watched.get_mut(key) {
        of_key.retain(|(_, sender)| !sender.same_channel(gone));
        if of_key.is_empty() {
            watched.remove(key);
        }
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
            forget(&mut watched, &self.key, &self.sender);
        }
        over
    }
}

impl Drop for Look {
    /// Also when the runtime ends: the next waiter starts a new watch.
    fn drop(&mut self) {
        forget(&mut self.inner.watched(), &self.key, &self.sender);
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
