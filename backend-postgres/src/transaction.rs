use std::{
    any::Any,
    panic::{AssertUnwindSafe, resume_unwind},
};

use futures_util::FutureExt;
use idempotency_core::{
    Abandoned, Answer, AnswerBody, Attempt, Begun, Classify, CompleteRequest, DetachedClaim,
    Disposition, Error, ErrorKind, Fingerprint, FinishOutcome, Idempotency, IdempotencyKey,
    IdempotencyStore, Mismatch, NotKept, Operation, Outcome, Recorded, Release, ReleaseOutcome,
    Replayed, Running, State, StoreError,
};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{PgConnection, Postgres, Row, Transaction};
use tokio::time;

use crate::{PostgresStore, call::pause, error, wire};

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
    /// Stores the answer of `attempt` inside a transaction of the caller's, in the same database: what the
    /// transaction has written and the answer are committed together or not at all.
    ///
    /// `Done`: stored, once the transaction is committed. `Lost`: the claim does not hold, and nothing
    /// was written; roll back. It is fenced more strictly than
    /// [`complete`](IdempotencyStore::complete): a record that is gone, released or completed is `Lost`
    /// too, because the work may have been done by somebody else or by this attempt before. Repeated
    /// with [`complete`](IdempotencyStore::complete) after the commit, the answer is `Done`.
    ///
    /// The heartbeat of the attempt ends first, after a renewal that is in flight; from then on the row
    /// lock of the transaction keeps the key. Whoever began the attempt finds out by itself what became
    /// of the transaction: [`ClaimGuard::joined`](idempotency_core::ClaimGuard::joined), and the HTTP
    /// layer for its handlers.
    ///
    /// ```no_run
    /// # use idempotency_core::{Answer, Attempt, FinishOutcome};
    /// # use idempotency_postgres::{PostgresStore, sqlx};
    /// # async fn example(store: PostgresStore, attempt: Attempt) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut transaction = store.pool().begin().await?;
    /// sqlx::query("INSERT INTO charges (amount) VALUES (500)").execute(&mut *transaction).await?;
    /// match store.complete_in(&mut transaction, &attempt, &Answer::bytes("charged")).await? {
    ///     FinishOutcome::Done => transaction.commit().await?,
    ///     _lost => transaction.rollback().await?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The statement failed, and with it the transaction: roll back. `Conflict` in a transaction of
    /// isolation REPEATABLE READ or SERIALIZABLE means that a heartbeat came after its snapshot: begin
    /// it anew, the heartbeat has ended. `Invalid`: the attempt runs without protection, as an executor
    /// that fails open allows; there is no claim to complete.
    pub async fn complete_in(
        &self,
        connection: &mut PgConnection,
        attempt: &Attempt,
        answer: &Answer,
    ) -> Result<FinishOutcome, StoreError> {
        let Some(request) = attempt.completion(answer).await else {
            let detail = "the attempt runs without a claim (the executor fails open): there is \
                nothing to complete";
            let error = StoreError::new(Operation::Complete, ErrorKind::Invalid, detail);
            return Err(error.without_effect());
        };
        self.complete_claim_in(connection, request).await
    }

    /// As [`complete_in`](Self::complete_in), for a claim that was made without an executor. End
    /// whatever renews it first.
    ///
    /// # Errors
    /// As `complete_in`.
    pub async fn complete_claim_in(
        &self,
        connection: &mut PgConnection,
        request: CompleteRequest<'_>,
    ) -> Result<FinishOutcome, StoreError> {
        self.inner.profile.check_response(&request.response)?;
        let place = self.inner.namespace.storage_key(request.key);
        let fingerprint = request.fingerprint.to_stored_bytes();
        let failed = |source| error::classify(Operation::Complete, source);
        let row = sqlx::query(self.inner.statements.complete.safe())
            .bind(place.as_str())
            .bind(wire::token(request.token))
            .bind(i64::from(request.attempt.get()))
            .bind(fingerprint.as_slice())
            .bind(request.response.as_ref())
            .bind(wire::millis(request.retention.get()))
            .bind(true)
            .bind(self.inner.lock_ms)
            .fetch_one(connection)
            .await
            .map_err(failed)?;
        let verdict: i16 = row.try_get(0).map_err(failed)?;
        Ok(if verdict == 1 { FinishOutcome::Done } else { FinishOutcome::Lost })
    }

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
                    let guard = TransactionGuard { store, claim, transaction };
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
        let release = match guard.claim.disposition_of(&result) {
            Disposition::Store => {
                if result.is_err()
                    && let Err(error) = guard.execute(UNDO).await
                {
                    guard.roll_back(Release::Failed).await;
                    return Err(TransactionError::RolledBack(error));
                }
                let answer = guard.claim.answer_of(&result);
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
    ) -> Result<Option<Transaction<'static, Postgres>>, StoreError> {
        let failed = |source| error::classify(Operation::Claim, source);
        let pool = self.pool().clone();
        // in a task that nobody cancels: a BEGIN that is dropped half-way returns its connection to the
        // pool inside a transaction (sqlx 0.8.4 to 0.9.0)
        let begun = tokio::spawn(async move { pool.begin().await });
        let timeout = self.inner.caller.timeout;
        let late = |_| {
            let detail = format!("no transaction within {timeout:?}");
            StoreError::new(Operation::Claim, ErrorKind::Timeout, detail).without_effect()
        };
        let ended = |_| {
            let detail = "the runtime ends";
            StoreError::new(Operation::Claim, ErrorKind::Unavailable, detail).without_effect()
        };
        let begun = time::timeout(timeout, begun).await.map_err(late)?;
        let mut transaction = begun.map_err(ended)?.map_err(failed)?;
        let request = claim.giving_back(Release::NotStarted);
        let place = self.inner.namespace.storage_key(request.key);
        let holds = sqlx::query(self.inner.statements.hold.safe())
            .bind(place.as_str())
            .bind(wire::token(request.token))
            .bind(i64::from(request.attempt.get()))
            .bind(self.inner.lock_ms)
            .fetch_one(&mut *transaction);
        let row = time::timeout(timeout, holds).await.map_err(late)?.map_err(failed)?;
        let holds: bool = row.try_get(0).map_err(failed)?;
        Ok(holds.then_some(transaction))
    }

    /// Finds out what came of a commit whose answer was lost. True: it was committed.
    ///
    /// Giving the key back waits for the row lock of the transaction, if it still lives: once it
    /// succeeds, the transaction was rolled back, and once it is refused, the answer is there.
    async fn settle_commit(&self, claim: &DetachedClaim) -> Result<bool, StoreError> {
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

/// A claim and the transaction that holds it, until it is committed or rolled back.
///
/// Dropping it rolls the transaction back and leaves the key to its lease.
#[derive(Debug)]
#[must_use = "commit it or roll it back; a dropped guard leaves its key to the lease"]
pub struct TransactionGuard {
    store: PostgresStore,
    claim: DetachedClaim,
    transaction: Transaction<'static, Postgres>,
}

impl TransactionGuard {
    /// What the work needs to know. Checkpoints cannot be saved: what a transaction leaves behind is
    /// what it commits.
    pub const fn attempt(&self) -> &Attempt {
        self.claim.attempt()
    }

    /// The connection, inside the transaction. `begin` on it makes a savepoint.
    pub fn connection(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }

    /// Stores the answer and commits it with everything that was written.
    ///
    /// # Errors
    /// Rolled back, lost, or unknown, as the error says.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the transaction committed, with its answer, or rolled back.
    pub async fn commit(self, answer: Answer) -> Result<Recorded, TransactionError> {
        let Self { store, claim, mut transaction } = self;
        let request = claim.completion(answer.clone());
        match store.complete_claim_in(&mut transaction, request).await {
            Ok(FinishOutcome::Done) => {}
            Ok(FinishOutcome::Lost | FinishOutcome::Restored) => {
                roll_back(transaction).await;
                claim.lost();
                return Err(TransactionError::Lost);
            }
            Err(error) => return rolled_back(transaction, claim, error).await,
        }
        let Err(failure) = transaction.commit().await else {
            return Ok(claim.finished(FinishOutcome::Done, &answer));
        };
        let is_refusal =
            failure.as_database_error().is_some() && !error::is_disconnection(&failure);
        let failure = error::classify(Operation::Complete, failure);
        if is_refusal {
            // a failed release is an event; the lease then ends the claim
            let _told = claim.release(Release::Failed).await;
            return Err(TransactionError::RolledBack(failure));
        }
        match store.settle_commit(&claim).await {
            Ok(true) => Ok(claim.finished(FinishOutcome::Done, &answer)),
            Ok(false) => {
                claim.released(Release::Failed);
                Err(TransactionError::RolledBack(failure))
            }
            Err(error) => {
                claim.unrecorded();
                Err(TransactionError::Unknown(error))
            }
        }
    }

    /// Rolls back and gives the key back: `Failed` when nothing has happened outside of the
    /// transaction either. A release that fails is an event; the lease then ends the claim.
    pub async fn roll_back(self, release: Release) {
        roll_back(self.transaction).await;
        let _told = self.claim.release(release).await;
    }

    async fn execute(&mut self, statement: &'static str) -> Result<(), StoreError> {
        let failed = |source| error::classify(Operation::Claim, source);
        sqlx::raw_sql(statement).execute(&mut *self.transaction).await.map_err(failed)?;
        Ok(())
    }
}

/// A rollback that fails has lost its connection, and the server rolls back by itself.
async fn roll_back(transaction: Transaction<'static, Postgres>) {
    let _ended = transaction.rollback().await;
}

async fn rolled_back(
    transaction: Transaction<'static, Postgres>,
    claim: DetachedClaim,
    error: StoreError,
) -> Result<Recorded, TransactionError> {
    roll_back(transaction).await;
    let _told = claim.release(Release::Failed).await;
    Err(TransactionError::RolledBack(error))
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
