use std::{
    any::Any,
    panic::{AssertUnwindSafe, resume_unwind},
};

use futures_util::FutureExt;
use idempotency_core::{
    Abandoned, AnswerBody, Attempt, Begun, Classify, DetachedClaim, Disposition, Error, ErrorKind,
    Fingerprint, Idempotency, IdempotencyKey, IdempotencyStore, Mismatch, NotKept, Operation,
    Outcome, Release, ReleaseOutcome, Replayed, Running, State, StoreError,
};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{PgConnection, Row};
use tokio::time;

use crate::{PostgresStore, PostgresTransaction, TransactionGuard, call::pause, error, wire};

/// What [`PostgresStore::begin_in_transaction`] found.
#[derive(Debug)]
#[must_use = "only `Acquired` gives the right to execute"]
pub enum BegunInTransaction {
    /// The caller executes in the guard's transaction.
    Acquired(TransactionGuard),
    /// It is done.
    Replayed(Replayed),
    /// Another attempt is running.
    InProgress(Running),
    /// The key stands for another request.
    Mismatch(Mismatch),
    /// An earlier attempt may have run, and taking over is refused.
    Unknown(Abandoned),
}

/// Why an operation inside a transaction has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The key could not be claimed. The work was not run.
    #[error(transparent)]
    Claim(#[from] Error),
    /// The transaction could not be begun. The work was not run.
    #[error("the transaction could not be begun: {0}")]
    Begin(#[source] StoreError),
    /// The transaction was rolled back, and nothing of it has happened: a retry executes.
    #[error("the transaction was rolled back: {0}")]
    RolledBack(#[source] StoreError),
    /// The claim was not held any more when the work had ended: the transaction was rolled back.
    #[error("another attempt has the key: the transaction was rolled back")]
    Lost,
    /// The connection failed in the commit, and the server did not tell what came of it in time. It
    /// may have been committed, with the answer: a retry gets it or executes.
    #[error("it is not known whether the transaction was committed: {0}")]
    Unknown(#[source] StoreError),
    /// The store did not answer the claim, and the executor is set to fail open. There is no
    /// transaction without the database, so the work was not run.
    #[error("a transaction cannot run without the store: failing open does not apply here")]
    Unprotected,
}

/// How often a claim that is lost before the work begins is made again.
const MAX_CLAIMS: u32 = 3;

/// Undoes what the work has written, and nothing else.
const SAVEPOINT: &str = "SAVEPOINT idempotency_work";
const UNDO: &str = "ROLLBACK TO SAVEPOINT idempotency_work";

impl PostgresStore {
    /// Claims `key` and begins a transaction that holds its row, for work that is committed by hand.
    ///
    /// The claim needs no heartbeat: while the transaction lives, nobody takes the key over, and
    /// others are answered `InProgress`, whatever the lease says.
    ///
    /// # Errors
    /// The store could not answer. Nothing may run.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the key claimed for at most its lease. No transaction stays open.
    pub async fn begin_in_transaction(
        &self,
        idempotency: &Idempotency,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
    ) -> Result<BegunInTransaction, TransactionError> {
        for _ in 0..MAX_CLAIMS {
            let guard = match idempotency.begin(key, fingerprint).await? {
                Begun::Acquired(guard) => guard,
                Begun::Replayed(replayed) => return Ok(BegunInTransaction::Replayed(replayed)),
                Begun::InProgress(running) => return Ok(BegunInTransaction::InProgress(running)),
                Begun::Mismatch(mismatch) => return Ok(BegunInTransaction::Mismatch(mismatch)),
                Begun::Unknown(abandoned) => return Ok(BegunInTransaction::Unknown(abandoned)),
            };
            let claim = guard.detach().await.ok_or(TransactionError::Unprotected)?;
            match self.begin_holding(&claim).await {
                Ok(Some(transaction)) => {
                    let store = self.clone();
                    let guard = TransactionGuard::new(store, claim, transaction);
                    return Ok(BegunInTransaction::Acquired(guard));
                }
                // gone or taken before any work: claim again
                Ok(None) => claim.lost(),
                Err(error) => {
                    // nothing began; a failed release is an event, and the lease then ends the claim
                    let _told = claim.release(Release::NotStarted).await;
                    return Err(TransactionError::Begin(error));
                }
            }
        }
        Err(Error::KeptLosing { tries: MAX_CLAIMS }.into())
    }

    /// Runs `work` once for `key`, in a transaction of this database, and gives its result to every
    /// repetition: what `work` writes through its connection and its result are committed together or
    /// not at all.
    ///
    /// An error that is stored (see [`Classify`]) is committed without what the work has written; all
    /// other errors roll the transaction back and release the key.
    ///
    /// The future is `Send` whenever that of `work` is; an async closure cannot promise it beforehand.
    ///
    /// # Errors
    /// There is no outcome; whether the work was run is said by the error. Whatever it is, what the work
    /// has written was rolled back, unless it is [`TransactionError::Unknown`].
    ///
    /// # Panics
    /// When `work` panics. The transaction is rolled back, and the key released as unknown: the work may
    /// have had effects elsewhere.
    ///
    /// # Cancel safety
    /// Dropping the future rolls the transaction back and leaves the key to its lease.
    pub async fn run_in_transaction<T, E, F>(
        &self,
        idempotency: &Idempotency,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<T, E>, TransactionError>
    where
        T: Serialize + DeserializeOwned,
        E: Classify + Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut PgConnection, Attempt) -> Result<T, E>,
    {
        let mut guard = match self.begin_in_transaction(idempotency, key, fingerprint).await? {
            BegunInTransaction::Acquired(guard) => guard,
            BegunInTransaction::Replayed(replayed) => return replay(&replayed),
            BegunInTransaction::InProgress(running) => return Ok(Outcome::InProgress(running)),
            BegunInTransaction::Mismatch(mismatch) => return Ok(Outcome::Mismatch(mismatch)),
            BegunInTransaction::Unknown(abandoned) => return Ok(Outcome::Unknown(abandoned)),
        };
        if let Err(error) = guard.execute(SAVEPOINT).await {
            guard.roll_back(Release::NotStarted).await;
            return Err(TransactionError::Begin(error));
        }
        let attempt = guard.attempt().clone();
        let ended = AssertUnwindSafe(work(guard.connection(), attempt)).catch_unwind().await;
        let result = match ended {
            Ok(result) => result,
            Err(panic) => give_up(guard, panic).await,
        };
        let release = match guard.claim().disposition_of(&result) {
            Disposition::Store => {
                if result.is_err()
                    && let Err(error) = guard.execute(UNDO).await
                {
                    guard.roll_back(Release::Failed).await;
                    return Err(TransactionError::RolledBack(error));
                }
                let answer = guard.claim().answer_of(&result);
                let _recorded = guard.commit(answer).await?;
                return Ok(Outcome::Executed(result));
            }
            Disposition::Failed => Release::Failed,
            Disposition::NotStarted => Release::NotStarted,
            Disposition::Unknown => Release::Unknown,
        };
        guard.roll_back(release).await;
        Ok(Outcome::Executed(result))
    }

    /// A transaction that holds the row of `claim`. None: the claim does not hold.
    async fn begin_holding(
        &self,
        claim: &DetachedClaim,
    ) -> Result<Option<PostgresTransaction>, StoreError> {
        let failed = |source| error::classify(Operation::Claim, source);
        let mut transaction = self.begin().await?;
        let request = claim.giving_back(Release::NotStarted);
        let place = self.inner.namespace.storage_key(request.key);
        let holds = sqlx::query(self.inner.statements.hold.safe())
            .bind(place.as_str())
            .bind(wire::token(request.token))
            .bind(i64::from(request.attempt.get()))
            .bind(self.inner.lock_ms)
            .fetch_one(&mut *transaction);
        let timeout = self.inner.caller.timeout;
        let late = |_| {
            let detail = format!("the own row could not be locked within {timeout:?}");
            StoreError::new(Operation::Claim, ErrorKind::Timeout, detail).without_effect()
        };
        let row = time::timeout(timeout, holds).await.map_err(late)?.map_err(failed)?;
        let holds: bool = row.try_get(0).map_err(failed)?;
        Ok(holds.then_some(transaction))
    }

    /// Finds out what came of a commit whose answer was lost. True: it was committed.
    ///
    /// Giving the key back waits for the row lock of the transaction, if it still lives: once it
    /// succeeds, the transaction was rolled back, and once it is refused, the answer is there.
    pub(crate) async fn settle_commit(&self, claim: &DetachedClaim) -> Result<bool, StoreError> {
        const LEAST: time::Duration = time::Duration::from_secs(10);
        let request = claim.giving_back(Release::Failed);
        let settled = async {
            let mut tries = 0;
            loop {
                match self.release(request).await {
                    Ok(ReleaseOutcome::Released) => return Ok(false),
                    Ok(ReleaseOutcome::Lost) => match self.lookup(request.key).await {
                        Ok(record) => {
                            return Ok(record.is_some_and(|record| {
                                record.token == request.token
                                    && record.attempt == request.attempt
                                    && matches!(record.state, State::Completed { .. })
                            }));
                        }
                        Err(error) if !error.is_transient() => return Err(error),
                        Err(_) => {}
                    },
                    Err(error) if !error.is_transient() => return Err(error),
                    Err(_) => {}
                }
                tries += 1;
                pause(tries).await;
            }
        };
        let patience = claim.lease_left().max(LEAST);
        time::timeout(patience, settled).await.unwrap_or_else(|_| {
            let detail = "the server did not answer after a commit was cut off";
            Err(StoreError::new(Operation::Complete, ErrorKind::Unavailable, detail))
        })
    }
}

/// A panic says nothing about what happened outside of the transaction.
async fn give_up(guard: TransactionGuard, panic: Box<dyn Any + Send>) -> ! {
    guard.roll_back(Release::Unknown).await;
    resume_unwind(panic)
}

fn replay<T, E>(replayed: &Replayed) -> Result<Outcome<T, E>, TransactionError>
where
    T: DeserializeOwned,
    E: DeserializeOwned,
{
    if let AnswerBody::NotKept(reason) = replayed.answer.body() {
        let Replayed { attempt, age, .. } = *replayed;
        return Ok(Outcome::NotKept(NotKept { reason, attempt, age }));
    }
    let result = replayed.answer.to_value().map_err(Error::from)?;
    Ok(Outcome::Replayed(result))
}
