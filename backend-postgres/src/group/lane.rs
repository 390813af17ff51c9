use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use idempotency_core::{Effect, StorageKey, StoreError};
use tokio::{runtime::Handle, sync::oneshot, task::yield_now};

use super::{Member, Sent, Told};
use crate::store::Inner;

/// Statements of one kind at once. Two keep the server busy while the other one's answer is on its way;
/// more make the groups smaller.
const LANES: usize = 2;

/// Members of a statement. Beyond this a commit is shared by so many that its cost no longer counts.
const LARGEST: usize = 128;

/// Bytes of the members of a statement. An answer of this length takes the server longer than a commit,
/// and others would wait for it.
pub(crate) const HEAVIEST: usize = 256 << 10;

pub(super) type Queue<M> = Mutex<Waiters<M>>;

pub(super) struct Waiters<M> {
    /// Lanes that are taken.
    busy: usize,
    waiting: Vec<Waiting<M>>,
    next_id: u64,
}

pub(super) struct Waiting<M> {
    id: u64,
    member: M,
    tell: oneshot::Sender<Told>,
}

pub(super) fn lock<M>(queue: &Queue<M>) -> MutexGuard<'_, Waiters<M>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M> Default for Waiters<M> {
    fn default() -> Self {
        Self { busy: 0, waiting: Vec::new(), next_id: 0 }
    }
}

impl<M: Member> Waiters<M> {
    pub(super) fn push(&mut self, member: M, tell: oneshot::Sender<Told>) -> u64 {
        self.next_id += 1;
        self.waiting.push(Waiting { id: self.next_id, member, tell });
        self.next_id
    }

    /// Those who have waited longest, as many as fit a statement.
    fn next_batch(&mut self) -> Vec<Waiting<M>> {
        self.waiting.retain(|waiting| !waiting.tell.is_closed());
        let mut weight = 0;
        let fits = self.waiting.iter().take(LARGEST).take_while(|waiting| {
            weight += waiting.member.weight();
            weight <= HEAVIEST
        });
        let size = fits.count();
        let rest = self.waiting.split_off(size);
        mem::replace(&mut self.waiting, rest)
    }
}

/// The right to have a statement under way. Whoever ends it sends what has come together meanwhile.
pub(super) struct Lane<M: Member> {
    queue: Arc<Queue<M>>,
    inner: Arc<Inner>,
}

impl<M: Member> Lane<M> {
    /// A lane that nobody has taken.
    pub(super) fn free(queue: &Arc<Queue<M>>, inner: &Arc<Inner>) -> Option<Self> {
        let mut waiters = lock(queue);
        if waiters.busy >= LANES {
            return None;
        }
        waiters.busy += 1;
        Some(Self { queue: Arc::clone(queue), inner: Arc::clone(inner) })
    }

    /// One more lane for those who wait, if `id` is still among them.
    pub(super) fn open_for(id: u64, queue: &Arc<Queue<M>>, inner: &Arc<Inner>) {
        let mut waiters = lock(queue);
        if waiters.waiting.iter().any(|waiting| waiting.id == id) {
            waiters.busy += 1;
            let batch = waiters.next_batch();
            drop(waiters);
            let lane = Self { queue: Arc::clone(queue), inner: Arc::clone(inner) };
            tokio::spawn(lane.send(batch));
        }
    }

    async fn send(self, batch: Vec<Waiting<M>>) {
        let mut crowds: HashMap<StorageKey, Vec<Waiting<M>>> = HashMap::with_capacity(batch.len());
        for waiting in batch {
            crowds.entry(waiting.member.place().clone()).or_default().push(waiting);
        }
        let firsts = crowds.values().filter_map(|crowd| crowd.first());
        let firsts: Vec<_> = firsts.map(|waiting| &waiting.member).collect();
        let sent = M::send(&self.inner, &firsts).await;
        tell(crowds, sent);
        // whoever was told may come again at once: the next statement is for all of them
        yield_now().await;
    }
}

/// Tells the first of each place what the statement answered, and the others of the same place what they
/// find after it.
fn tell<M: Member>(crowds: HashMap<StorageKey, Vec<Waiting<M>>>, sent: Result<Sent, StoreError>) {
    let Sent { mut replies, unanswered } = sent.unwrap_or_else(|error| {
        tracing::debug!(%error, "idempotency: a group failed, its members go alone");
        Sent { replies: HashMap::new(), unanswered: error.effect() }
    });
    for (place, crowd) in crowds {
        let mut crowd = crowd.into_iter();
        let Some(first) = crowd.next() else {
            continue;
        };
        let reply = replies.remove(place.as_str());
        let found = reply.as_ref().and_then(|reply| first.member.after(reply));
        // who does not listen any more has an operation that arrived late (C46)
        let _gone = first.tell.send(reply.map_or(Told::Nothing(unanswered), Told::Reply));
        for other in crowd {
            // it was not sent
            let told = found.clone().map_or(Told::Nothing(Effect::None), Told::Reply);
            let _gone = other.tell.send(told);
        }
    }
}

impl<M: Member> Drop for Lane<M> {
    fn drop(&mut self) {
        let mut waiters = lock(&self.queue);
        let Ok(runtime) = Handle::try_current() else {
            // nobody can send for those who wait
            waiters.busy -= 1;
            waiters.waiting.clear();
            return;
        };
        // one that was opened because others are held up ends here
        let is_usual = waiters.busy <= LANES;
        let batch = if is_usual { waiters.next_batch() } else { Vec::new() };
        if batch.is_empty() {
            waiters.busy -= 1;
            return;
        }
        drop(waiters);
        let lane = Self { queue: Arc::clone(&self.queue), inner: Arc::clone(&self.inner) };
        runtime.spawn(lane.send(batch));
    }
}
