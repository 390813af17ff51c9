use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures_util::StreamExt;
use idempotency_core::{ErrorKind, IdempotencyKey, Operation, StoreError, Watch, Watching};
use redis::{
    RedisError,
    aio::{PubSubSink, PubSubStream},
};
use tokio::sync::watch;

use crate::{RedisStore, answer, error::classify, link::Dial, script, wire::Name};

/// The one connection of a store (and its clones) on which it is told what others publish. It is made
/// for the first waiter, and made anew for the first one after it broke.
pub(crate) struct Subscriber {
    dial: Dial,
    sink: tokio::sync::Mutex<Option<PubSubSink>>,
    watched: Mutex<Watched>,
}

/// Who waits for which key. The connection they were told by has a number, so that what a broken one
/// leaves behind is told from what its successor has.
#[derive(Default)]
struct Watched {
    connection: u64,
    keys: HashMap<Name, watch::Sender<()>>,
}

impl Subscriber {
    pub(crate) fn new(dial: Dial) -> Self {
        Self { dial, sink: tokio::sync::Mutex::default(), watched: Mutex::default() }
    }

    /// Begins to be told about the key.
    async fn subscribe(self: &Arc<Self>, name: Name) -> Result<watch::Receiver<()>, RedisError> {
        // held until the server has confirmed: nobody unsubscribes in between
        let mut sink = self.sink.lock().await;
        if self.watched().keys.is_empty() || sink.is_none() {
            self.watched().connection += 1;
            let (fresh, stream) = self.dial.subscribe().await?.split();
            let connection = self.watched().connection;
            tokio::spawn(listen(Arc::downgrade(self), stream, connection));
            *sink = Some(fresh);
        }
        let changes = {
            let mut watched = self.watched();
            let sender = watched.keys.entry(name).or_insert_with(|| watch::channel(()).0);
            sender.subscribe()
        };
        if let Some(open) = &mut *sink
            && let Err(error) = open.subscribe(channel(name)).await
        {
            *sink = None;
            return Err(error);
        }
        Ok(changes)
    }

    /// Stops being told about the key unless somebody else waits for it.
    async fn unsubscribe(&self, name: Name) {
        let mut sink = self.sink.lock().await;
        let over = {
            let mut watched = self.watched();
            let over = watched.keys.get(&name).is_some_and(|sender| sender.receiver_count() == 0);
            if over {
                watched.keys.remove(&name);
            }
            over
        };
        if let Some(open) = &mut *sink
            && over
        {
            let left = open.unsubscribe(channel(name)).await;
            // nobody waits any more: the next one dials, and sees at once whether the server is there
            if left.is_err() || self.watched().keys.is_empty() {
                *sink = None;
            }
        }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on what comes. When the connection ends, all who wait are told that nothing will come.
async fn listen(
    subscriber: std::sync::Weak<Subscriber>,
    mut stream: PubSubStream,
    connection: u64,
) {
    while let Some(message) = stream.next().await {
        let Some(subscriber) = subscriber.upgrade() else { return };
        let name = message.get_channel::<Vec<u8>>().ok().and_then(|channel| name_of(&channel));
        let watched = subscriber.watched();
        if let Some(sender) = name.and_then(|name| watched.keys.get(&name)) {
            sender.send_replace(());
        }
    }
    if let Some(subscriber) = subscriber.upgrade() {
        let mut watched = subscriber.watched();
        if watched.connection == connection {
            watched.keys.clear();
        }
    }
}

const CHANNEL: &[u8] = b"idempotency:";

/// Where the scripts tell that an attempt has ended.
fn channel(name: Name) -> Vec<u8> {
    [CHANNEL, &name.0].concat()
}

fn name_of(channel: &[u8]) -> Option<Name> {
    Some(Name(channel.strip_prefix(CHANNEL)?.try_into().ok()?))
}

/// The record is marked, so that whoever ends its attempt tells it. The mark is lost when the record is:
/// polling is never left out.
#[async_trait]
impl Watch for RedisStore {
    async fn watch(&self, key: &IdempotencyKey) -> Result<Box<dyn Watching>, StoreError> {
        let Some(subscriber) = self.subscriber() else {
            let detail = "the application's own connection cannot subscribe";
            return Err(StoreError::new(Operation::Watch, ErrorKind::Invalid, detail));
        };
        let place = self.place(key);
        let begin = async {
            let changes = subscriber.subscribe(place.name).await;
            changes.map_err(|error| classify(Operation::Watch, &error))
        };
        let changes = self.within_timeout(Operation::Watch, begin).await?;
        let mut watched =
            WatchedKey { subscriber: Arc::clone(subscriber), name: place.name, changes };
        let mark = place.name.mark();
        let reply = self.run(Operation::Watch, &script::WATCH, &place, &[&mark]).await?;
        if !answer::watch(reply)? {
            // no attempt runs: who waits should look now
            watched.changes.mark_changed();
        }
        Ok(Box::new(watched))
    }
}

struct WatchedKey {
    subscriber: Arc<Subscriber>,
    name: Name,
    changes: watch::Receiver<()>,
}

#[async_trait]
impl Watching for WatchedKey {
    async fn changed(&mut self) -> Result<(), StoreError> {
        self.changes.changed().await.map_err(|_| {
            let detail = "the connection on which changes are told has ended";
            StoreError::new(Operation::Watch, ErrorKind::Unavailable, detail)
        })
    }
}

impl std::fmt::Debug for WatchedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WatchedKey")
    }
}

impl Drop for WatchedKey {
    fn drop(&mut self) {
        let (subscriber, name) = (Arc::clone(&self.subscriber), self.name);
        // without a runtime the connection is gone too
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let ended = std::mem::replace(&mut self.changes, watch::channel(()).1);
            drop(ended);
            runtime.spawn(async move { subscriber.unsubscribe(name).await });
        }
    }
}
