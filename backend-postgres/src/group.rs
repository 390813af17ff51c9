use std::{
    collections::HashMap,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use idempotency_core::{
    ClaimRequest, ClaimToken, Fingerprint, IdempotencyKey, Lease, Operation, Retention, StorageKey,
    StoreError, Takeover,
    machine::{self, Write},
};
use tokio::{runtime::Handle, sync::oneshot, time};

use crate::{
    store::Inner,
    wire::{self, Reply, Verdict},
};

/// Group commit: claims that arrive while others are under way wait for those, and then share one
/// statement and one commit. A claim that arrives when a lane is free is sent at once and alone.
///
/// A group only inserts what is absent and looks at the rest. Whatever needs more, and every claim of
/// a group that failed, is claimed alone: one bad key never fails its neighbours.
#[derive(Default)]
pub(crate) struct Group {
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    /// Lanes that are taken.
    busy: usize,
    waiting: Vec<Waiting>,
    next_id: u64,
}

struct Waiting {
    id: u64,
    key: IdempotencyKey,
    place: StorageKey,
    fingerprint: Fingerprint,
    token: ClaimToken,
    lease: Lease,
    retention: Retention,
    reply: oneshot::Sender<Reply>,
}

/// Statements at once. Two keep the server busy while the other one's answer is on its way; more make
/// the groups smaller.
const LANES: usize = 2;

/// Claims a statement. Beyond this a commit is shared by so many that its cost no longer counts.
const LARGEST: usize = 128;

/// A claim that is still not in a group after this time is sent alone: the lanes may be held up by rows
/// that somebody's transaction holds.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

impl Group {
    /// A free lane, or none.
    pub(crate) fn lane(&self, inner: &Arc<Inner>) -> Option<Lane> {
        let mut queue = lock(&self.queue);
        if queue.busy >= LANES {
            return None;
        }
        queue.busy += 1;
        Some(Lane { queue: Arc::clone(&self.queue), inner: Arc::clone(inner) })
    }

    /// The reply to a claim that went with others. None: claim alone.
    pub(crate) async fn claim(
        &self,
        place: &StorageKey,
        request: &ClaimRequest<'_>,
    ) -> Option<Reply> {
        let (reply, mut answer) = oneshot::channel();
        let id = {
            let mut queue = lock(&self.queue);
            queue.next_id += 1;
            let id = queue.next_id;
            queue.waiting.push(Waiting {
                id,
                key: request.key.clone(),
                place: place.clone(),
                fingerprint: request.fingerprint,
                token: request.token,
                lease: request.lease,
                retention: request.retention,
                reply,
            });
            id
        };
        if let Ok(answer) = time::timeout(LONGEST_WAIT, &mut answer).await {
            return answer.ok();
        }
        {
            let mut queue = lock(&self.queue);
            if let Some(at) = queue.waiting.iter().position(|waiting| waiting.id == id) {
                queue.waiting.swap_remove(at);
                return None;
            }
        }
        answer.await.ok()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to have a statement under way. Whoever ends it sends what has come together meanwhile.
pub(crate) struct Lane {
    queue: Arc<Mutex<Queue>>,
    inner: Arc<Inner>,
}

impl Lane {
    async fn send(self, batch: Vec<Waiting>) {
        let mut members = Members::of(batch);
        // a failure leaves every member without a reply: they claim alone
        if let Ok(replies) = self.inner.claim_many(&members).await {
            members.answer(replies);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut queue = lock(&self.queue);
        queue.waiting.retain(|waiting| !waiting.reply.is_closed());
        let runtime = Handle::try_current();
        let (Ok(runtime), false) = (runtime, queue.waiting.is_empty()) else {
            queue.busy -= 1;
            // without a runtime nobody can send for them
            queue.waiting.clear();
            return;
        };
        let size = queue.waiting.len().min(LARGEST);
        let rest = queue.waiting.split_off(size);
        let batch = mem::replace(&mut queue.waiting, rest);
        drop(queue);
        let lane = Self { queue: Arc::clone(&self.queue), inner: Arc::clone(&self.inner) };
        runtime.spawn(lane.send(batch));
    }
}

/// The claims of a group, by key: a statement holds each key once.
struct Members {
    by_place: HashMap<StorageKey, Vec<Waiting>>,
}

impl Members {
    fn of(batch: Vec<Waiting>) -> Self {
        let mut by_place: HashMap<StorageKey, Vec<Waiting>> = HashMap::with_capacity(batch.len());
        for waiting in batch {
            by_place.entry(waiting.place.clone()).or_default().push(waiting);
        }
        Self { by_place }
    }

    /// The first claim of each key.
    fn firsts(&self) -> impl Iterator<Item = &Waiting> {
        self.by_place.values().filter_map(|same_key| same_key.first())
    }

    /// The first claim of a key gets what the statement answered; the others of the same key find what
    /// it has written.
    fn answer(&mut self, replies: Vec<(String, Reply)>) {
        let mut replies: HashMap<_, _> = replies.into_iter().collect();
        for (place, same_key) in self.by_place.drain() {
            let Some(reply) = replies.remove(place.as_str()) else {
                continue;
            };
            let mut same_key = same_key.into_iter();
            let Some(first) = same_key.next() else {
                continue;
            };
            let found = after(&first, &reply);
            // who does not listen any more has a claim that ends with its lease (C46)
            let _gone = first.reply.send(reply);
            for other in same_key {
                let _gone = other.reply.send(found.clone());
            }
        }
    }
}

/// What others find after the claim of `first` was answered with `reply`.
fn after(first: &Waiting, reply: &Reply) -> Reply {
    if reply.verdict != Verdict::Written {
        return reply.clone();
    }
    let request = ClaimRequest {
        key: &first.key,
        fingerprint: first.fingerprint,
        token: first.token,
        lease: first.lease,
        retention: first.retention,
        takeover: Takeover::Refuse,
    };
    let decided = machine::claim(None, &request, reply.at.into());
    let record = match decided.map(|decision| decision.write) {
        Ok(Write::Put(record)) => Some(Ok(record)),
        Ok(Write::Keep) | Err(_) => None,
    };
    Reply { verdict: Verdict::Seen, record, ..reply.clone() }
}

impl Inner {
    async fn claim_many(&self, members: &Members) -> Result<Vec<(String, Reply)>, StoreError> {
        let mut columns = Columns::default();
        for first in members.firsts() {
            columns.push(first);
        }
        let query = || {
            sqlx::query(self.statements.claim_many.safe())
                .bind(&columns.places)
                .bind(&columns.fingerprints)
                .bind(&columns.tokens)
                .bind(&columns.leases)
                .bind(&columns.retentions)
                .bind(self.lock_ms)
        };
        let rows = self.caller.rows(Operation::Claim, query).await?;
        let reply = |row| {
            let (place, reply) = Reply::read_any(Operation::Claim, row)?;
            Ok((place.unwrap_or_default().to_owned(), reply))
        };
        rows.iter().map(reply).collect()
    }
}

#[derive(Default)]
struct Columns {
    places: Vec<String>,
    fingerprints: Vec<Vec<u8>>,
    tokens: Vec<sqlx::types::Uuid>,
    leases: Vec<i64>,
    retentions: Vec<i64>,
}

impl Columns {
    fn push(&mut self, waiting: &Waiting) {
        self.places.push(waiting.place.as_str().to_owned());
        self.fingerprints.push(waiting.fingerprint.to_stored_bytes().to_vec());
        self.tokens.push(wire::token(waiting.token));
        self.leases.push(wire::millis(waiting.lease.get()));
        self.retentions.push(wire::millis(waiting.retention.get()));
    }
}
