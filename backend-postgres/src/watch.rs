use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use async_trait::async_trait;
use idempotency_core::{
    ErrorKind, IdempotencyKey, Operation, StorageKey, StoreError, Watch, Watching,
};
use sha2::{Digest, Sha256};
use sqlx::{
    ConnectOptions, PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::{sync::watch, task::JoinHandle, time};

use crate::{PostgresStore, names::Names};

/// How this process hears of what has ended: one connection of its own, and only while somebody waits.
#[derive(Debug)]
pub(crate) struct Listening {
    options: Arc<PgConnectOptions>,
    channel: String,
    hub: Mutex<Weak<Hub>>,
}

impl Listening {
    pub(crate) fn new(pool: &PgPool, names: &Names) -> Self {
        let hub = Mutex::new(Weak::new());
        Self { options: pool.connect_options(), channel: names.channel(), hub }
    }

    /// The hub of all who wait in this process.
    fn hub(&self) -> Arc<Hub> {
        let mut known = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hub) = known.upgrade().filter(|hub| !hub.task.is_finished()) {
            return hub;
        }
        let (options, channel) = (PgConnectOptions::clone(&self.options), self.channel.clone());
        let hub = Arc::new_cyclic(|hub: &Weak<Hub>| {
            let (ready, is_ready) = watch::channel(false);
            let task = tokio::spawn(listen(options, channel, ready, Weak::clone(hub)));
            Hub { watched: Mutex::default(), is_ready, task }
        });
        *known = Arc::downgrade(&hub);
        hub
    }
}

#[derive(Debug)]
struct Hub {
    /// By digest.
    watched: Mutex<HashMap<String, watch::Sender<()>>>,
    is_ready: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Hub {
    fn watched(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, digest: &str) {
        if let Some(sender) = self.watched().get(digest) {
            sender.send_replace(());
        }
    }

    fn wake_all(&self) {
        for sender in self.watched().values() {
            sender.send_replace(());
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens until nobody waits any more, or the server is not to be had.
async fn listen(
    options: PgConnectOptions,
    channel: String,
    ready: watch::Sender<bool>,
    hub: Weak<Hub>,
) {
    let options = options.disable_statement_logging();
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let listening = async {
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(&channel).await?;
        ready.send_replace(true);
        loop {
            let heard = listener.try_recv().await?;
            let Some(hub) = hub.upgrade() else {
                return Ok::<(), sqlx::Error>(());
            };
            match heard {
                Some(notification) => hub.wake(notification.payload()),
                // the connection was lost, and with it perhaps a notification
                None => hub.wake_all(),
            }
        }
    };
    if let Err(error) = listening.await {
        tracing::debug!(%error, "idempotency: listening ended");
    }
}

/// What the functions send: the key itself would be shown to everybody who listens.
fn digest(place: &StorageKey) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(place.as_str()) {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// The mark that makes the end of the attempt be told is no part of the record.
#[async_trait]
impl Watch for PostgresStore {
    async fn watch(&self, key: &IdempotencyKey) -> Result<Box<dyn Watching>, StoreError> {
        let Some(listening) = &self.inner.listening else {
            return Err(unavailable("listening is switched off"));
        };
        let place = self.inner.namespace.storage_key(key);
        let (hub, digest) = (listening.hub(), digest(&place));
        let mut is_ready = hub.is_ready.clone();
        let timeout: Duration = self.inner.caller.timeout;
        let ready = async { is_ready.wait_for(|ready| *ready).await.is_ok() };
        if !time::timeout(timeout, ready).await.unwrap_or(false) {
            return Err(unavailable("no connection to listen on"));
        }
        let changes =
            hub.watched().entry(digest.clone()).or_insert_with(|| watch::channel(()).0).subscribe();
        let watched = Watched { changes, digest, hub };
        let query = || sqlx::query(self.inner.statements.wait.safe()).bind(place.as_str());
        self.inner.caller.rows(Operation::Watch, &query).await?;
        Ok(Box::new(watched))
    }
}

fn unavailable(detail: &'static str) -> StoreError {
    StoreError::new(Operation::Watch, ErrorKind::Unavailable, detail).without_effect()
}

#[derive(Debug)]
struct Watched {
    changes: watch::Receiver<()>,
    digest: String,
    hub: Arc<Hub>,
}

#[async_trait]
impl Watching for Watched {
    async fn changed(&mut self) -> Result<(), StoreError> {
        let hub = Arc::clone(&self.hub);
        let mut is_ready = hub.is_ready.clone();
        tokio::select! {
            changed = self.changes.changed() => changed.map_err(|_| unavailable("listening ended")),
            // the task has ended
            _ = is_ready.wait_for(|ready| !ready) => Err(unavailable("listening ended")),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watched = self.hub.watched();
        // this one is still subscribed
        if watched.get(&self.digest).is_some_and(|sender| sender.receiver_count() <= 1) {
            watched.remove(&self.digest);
        }
    }
}
