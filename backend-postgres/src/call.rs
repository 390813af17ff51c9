use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use idempotency_core::{Effect, ErrorKind, Operation, StoreError};
use sqlx::{
    Connection, PgConnection, PgPool, Postgres, pool::PoolConnection, postgres::PgArguments,
    postgres::PgRow, query::Query,
};
use tokio::{runtime::Handle, time};

use crate::{
    error,
    spare::{Spare, Spares},
};

/// Sends statements, each within a time-out, and again where that is safe: all of ours may be repeated
/// with the same arguments.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) pool: PgPool,
    pub(crate) timeout: Duration,
    /// None: the pool has other users.
    pub(crate) spares: Option<Arc<Spares>>,
}

/// Tries of a statement that was rolled back because of others. With the pauses below they last at
/// most a second, 0.5 s on average.
const MAX_TRIES: u32 = 20;
const LONGEST_PAUSE_MS: u64 = 64;

/// Tries on other connections, when one turns out to be dead: those of a pool may all be, after the
/// server was started anew.
pub(crate) const MAX_CONNECTIONS: u32 = 3;

impl Caller {
    /// All rows of the answer to a statement.
    pub(crate) async fn rows<'q>(
        &self,
        operation: Operation,
        query: &(impl Fn() -> Query<'q, Postgres, PgArguments> + Send + Sync),
    ) -> Result<Vec<PgRow>, StoreError> {
        self.rows_and_before(operation, query).await.map(|(rows, _)| rows)
    }

    /// With what earlier tries of the statement may have done.
    pub(crate) async fn rows_and_before<'q>(
        &self,
        operation: Operation,
        query: &(impl Fn() -> Query<'q, Postgres, PgArguments> + Send + Sync),
    ) -> Result<(Vec<PgRow>, Effect), StoreError> {
        let mut progress = Progress::default();
        let answer = time::timeout(self.timeout, self.tries(operation, query, &mut progress)).await;
        match answer {
            Ok(Ok(rows)) if progress.may_have_happened => Ok((rows, Effect::Unknown)),
            Ok(Ok(rows)) => Ok((rows, Effect::None)),
            Ok(Err(error)) if !progress.may_have_happened => Err(error.without_effect()),
            Ok(Err(error)) if error.effect() == Effect::Unknown => Err(error),
            Ok(Err(error)) => {
                let detail = "an earlier try lost its connection, and the last one failed";
                Err(StoreError::new(operation, error.kind(), detail).with_source(error))
            }
            Err(_) => {
                let detail = format!("nothing within {:?}", self.timeout);
                let error = StoreError::new(operation, ErrorKind::Timeout, detail);
                let sent = progress.is_sent || progress.may_have_happened;
                Err(if sent { error } else { error.without_effect() })
            }
        }
    }

    /// The only row of the answer to a statement.
    pub(crate) async fn row<'q>(
        &self,
        operation: Operation,
        query: &(impl Fn() -> Query<'q, Postgres, PgArguments> + Send + Sync),
    ) -> Result<PgRow, StoreError> {
        let rows = self.rows(operation, query).await?;
        rows.into_iter().next().ok_or_else(|| {
            StoreError::new(operation, ErrorKind::Unexpected, "an answer without a row")
        })
    }

    async fn tries<'q>(
        &self,
        operation: Operation,
        query: &(impl Fn() -> Query<'q, Postgres, PgArguments> + Send + Sync),
        progress: &mut Progress,
    ) -> Result<Vec<PgRow>, StoreError> {
        let (mut tries, mut connections) = (0, 0);
        loop {
            let mut connection = match self.borrow().await {
                Ok(connection) => connection,
                Err(failure) => {
                    // nothing was sent; but what cannot be known for sure is not promised
                    progress.may_have_happened |= error::is_disconnection(&failure);
                    return Err(error::classify(operation, failure));
                }
            };
            progress.is_sent = true;
            let failure = match query().fetch_all(&mut *connection).await {
                Ok(rows) => {
                    connection.give_back();
                    return Ok(rows);
                }
                Err(failure) => failure,
            };
            progress.is_sent = false;
            if error::is_disconnection(&failure) {
                connections += 1;
            } else {
                connection.give_back();
                tries += 1;
            }
            let again = if error::is_disconnection(&failure) {
                connections < MAX_CONNECTIONS
            } else {
                error::is_serialization(&failure) && tries < MAX_TRIES
            };
            let failure = error::classify(operation, failure);
            progress.may_have_happened |= failure.effect() == Effect::Unknown;
            if !again {
                return Err(failure);
            }
            pause(tries).await;
        }
    }

    /// A connection of the pool.
    pub(crate) async fn borrow(&self) -> Result<Borrowed, sqlx::Error> {
        let borrowed = |connection, origin| Borrowed {
            connection: Some(connection),
            patience: self.timeout,
            origin,
        };
        let Some(spares) = &self.spares else {
            return Ok(borrowed(self.acquire().await?, None));
        };
        let (connection, since) = match spares.take() {
            Ok(Spare { connection, since }) => (connection, since),
            Err(waits) => (self.acquire().await?, waits.turn()),
        };
        Ok(borrowed(connection, Some((Arc::clone(spares), since))))
    }

    /// Boxed: the driver's future is large, and would be moved with each of ours.
    fn acquire(&self) -> BoxFuture<'static, Result<PoolConnection<Postgres>, sqlx::Error>> {
        self.pool.acquire().boxed()
    }
}

/// How far an operation came.
#[derive(Debug, Default)]
struct Progress {
    is_sent: bool,
    may_have_happened: bool,
}

/// Exponential with full jitter.
pub(crate) async fn pause(tries: u32) {
    let longest = (1 << tries.min(10)).min(LONGEST_PAUSE_MS);
    time::sleep(Duration::from_micros(fastrand::u64(0..longest * 1_000))).await;
}

/// A connection of the pool that returns to it only in a state that is known.
///
/// Dropped in the middle of a statement it is drained first, in the background. A server that does not
/// answer in time loses the connection: the pool would wait for it for ever.
#[derive(Debug)]
pub(crate) struct Borrowed {
    connection: Option<PoolConnection<Postgres>>,
    patience: Duration,
    /// Where it may lie until the next operation, and the turn in which it left the pool.
    origin: Option<(Arc<Spares>, u64)>,
}

impl Borrowed {
    /// Nothing is under way.
    pub(crate) fn give_back(mut self) {
        let (connection, origin) = (self.connection.take(), self.origin.take());
        if let (Some(connection), Some((spares, since))) = (connection, origin) {
            spares.put(Spare { connection, since });
        }
    }

    /// It is of no use any more; its place in the pool is free at once.
    pub(crate) fn close(mut self) {
        drop(self.connection.take().map(PoolConnection::detach));
    }

    /// How long one operation may take.
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }
}

impl Deref for Borrowed {
    type Target = PgConnection;

    #[expect(clippy::expect_used, reason = "taken only where the value ends")]
    fn deref(&self) -> &Self::Target {
        self.connection.as_ref().expect("a borrowed connection")
    }
}

impl DerefMut for Borrowed {
    #[expect(clippy::expect_used, reason = "taken only where the value ends")]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.connection.as_mut().expect("a borrowed connection")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(drain(connection, self.patience))),
            Err(_) => drop(connection.detach()),
        }
    }
}

async fn drain(mut connection: PoolConnection<Postgres>, patience: Duration) {
    let drained = time::timeout(patience, PgConnection::ping(&mut connection)).await;
    if !matches!(drained, Ok(Ok(()))) {
        drop(connection.detach());
    }
}
