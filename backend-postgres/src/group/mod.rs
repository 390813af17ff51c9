//! Group commit: one statement, and one commit, for many operations of one kind.

mod claims;
mod completions;
mod lane;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use idempotency_core::{Effect, ErrorKind, Operation, StorageKey, StoreError};
use sqlx::{Postgres, postgres::PgArguments, query::Query};
use tokio::{sync::oneshot, time};

use crate::{store::Inner, wire::Reply};
use lane::{Lane, Queue, lock};

pub(crate) use claims::Claiming;
pub(crate) use completions::Completing;
pub(crate) use lane::HEAVIEST;

/// An operation that can share a statement with others of its kind.
pub(crate) trait Member: Sized + Send + Sync + 'static {
    const OPERATION: Operation;

    /// Where its record is. A statement holds each place once.
    fn place(&self) -> &StorageKey;

    /// What it adds to the length of a statement, in bytes: at most [`HEAVIEST`].
    fn weight(&self) -> usize;

    /// One statement for all of them. Whoever has no reply in what it answers goes alone.
    fn send(
        inner: &Inner,
        members: &[&Self],
    ) -> impl Future<Output = Result<Sent, StoreError>> + Send;

    /// What another one of the same place finds after this one was answered with `reply`. None: it goes
    /// alone.
    fn after(&self, reply: &Reply) -> Option<Reply>;
}

/// What a shared statement answered.
#[derive(Debug)]
pub(crate) struct Sent {
    /// By place.
    pub(crate) replies: HashMap<String, Reply>,
    /// What may have happened to those without a reply: an earlier try may have lost its connection.
    pub(crate) unanswered: Effect,
}

/// What became of a member.
#[derive(Debug)]
enum Told {
    Reply(Reply),
    /// It goes alone; what may have happened before.
    Nothing(Effect),
}

/// An operation that arrives while others of its kind are under way waits for those, and then shares one
/// statement with whatever else came meanwhile. One that arrives when a lane is free is sent at once and
/// alone.
///
/// A group does what is usual. Whatever needs more, and every member of a group that failed, goes
/// alone: one bad key never fails its neighbours.
pub(crate) struct Group<M> {
    queue: Arc<Queue<M>>,
}

/// Whoever waits longer for a lane opens one more, for all who wait: those that are taken are held up, by
/// rows that somebody's transaction holds or by a slow server.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// How long a shared statement waits for what somebody has not committed: for a usual commit, and not for
/// somebody's transaction. In milliseconds, as the functions have it.
const LOCK_MS: i32 = 50;

impl<M: Member> Group<M> {
    /// Does an operation with others, or by `alone`. `read` finds the answer in a reply; none where
    /// only `alone` finds it.
    ///
    /// All of it takes no longer than one operation may.
    pub(crate) async fn share<A: Send>(
        &self,
        inner: &Arc<Inner>,
        member: impl FnOnce() -> M + Send,
        read: impl FnOnce(&Reply) -> Result<Option<A>, StoreError> + Send,
        alone: Pin<&mut (impl Future<Output = Result<A, StoreError>> + Send)>,
    ) -> Result<A, StoreError> {
        if let Some(lane) = Lane::free(&self.queue, inner) {
            let answer = alone.await;
            drop(lane);
            return answer;
        }
        // boxed: who has a lane needs no room for this
        let shared = async {
            let before = match self.join(inner, member()).await {
                Told::Reply(reply) => match read(&reply)? {
                    Some(answer) => return Ok(answer),
                    None => Effect::None,
                },
                Told::Nothing(before) => before,
            };
            alone.await.map_err(|error| match before {
                Effect::None => error,
                Effect::Unknown => error.after_unknown_effect(),
            })
        }
        .boxed();
        let patience = inner.caller.timeout;
        time::timeout(patience, shared).await.unwrap_or_else(|_| {
            let detail = format!("nothing within {patience:?}");
            Err(StoreError::new(M::OPERATION, ErrorKind::Timeout, detail))
        })
    }

    /// Waits for a statement that is shared with others.
    async fn join(&self, inner: &Arc<Inner>, member: M) -> Told {
        let (tell, mut told) = oneshot::channel();
        let id = lock(&self.queue).push(member, tell);
        let told = if let Ok(told) = time::timeout(LONGEST_WAIT, &mut told).await {
            told
        } else {
            Lane::open_for(id, &self.queue, inner);
            told.await
        };
        // whoever had to tell has ended without it: nobody knows
        told.unwrap_or(Told::Nothing(Effect::Unknown))
    }
}

impl Inner {
    /// One statement for many operations, whose replies are told apart by their places.
    async fn send_for_many<'q>(
        &self,
        operation: Operation,
        query: impl Fn() -> Query<'q, Postgres, PgArguments> + Send + Sync,
    ) -> Result<Sent, StoreError> {
        let (rows, unanswered) = self.caller.rows_and_before(operation, &query).await?;
        let reply = |row| {
            let (place, reply) = Reply::read_any(operation, row)?;
            Ok((place.unwrap_or_default().to_owned(), reply))
        };
        let replies = rows.iter().map(reply).collect::<Result<_, StoreError>>()?;
        Ok(Sent { replies, unanswered })
    }

    /// The members of a group go alone after this time, and wait then as long as they may.
    fn group_lock_ms(&self) -> i32 {
        self.lock_ms.min(LOCK_MS)
    }
}

impl<M> Default for Group<M> {
    fn default() -> Self {
        Self { queue: Arc::default() }
    }
}

impl<M> fmt::Debug for Group<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}
