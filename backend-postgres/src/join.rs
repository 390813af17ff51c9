use idempotency_core::{
    Answer, Attempt, CompleteRequest, ErrorKind, FinishOutcome, Operation, StoreError,
};
use sqlx::PgConnection;
use tokio::time;

use crate::{
    PostgresStore, error,
    wire::{self, Reply, Verdict},
};

impl PostgresStore {
    /// Stores the answer of `attempt` inside a transaction of the caller's, in the same database: what the
    /// transaction has written and the answer are committed together or not at all.
    ///
    /// `Done`: stored, once the transaction is committed. `Lost`: the claim does not hold, and nothing
    /// was written; roll back. It is fenced more strictly than
    /// [`complete`](idempotency_core::IdempotencyStore::complete): a record that is gone, released or completed is `Lost`
    /// too, because the work may have been done by somebody else or by this attempt before. Repeated
    /// with [`complete`](idempotency_core::IdempotencyStore::complete) after the commit, the answer is `Done`.
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
            .fetch_one(connection);
        let timeout = self.inner.caller.timeout;
        let Ok(row) = time::timeout(timeout, row).await else {
            // nothing counts before the commit
            let detail = format!("nothing within {timeout:?}; roll back");
            let error = StoreError::new(Operation::Complete, ErrorKind::Timeout, detail);
            return Err(error.without_effect());
        };
        let row = row.map_err(failed)?;
        let reply = Reply::read(Operation::Complete, &row, &place)?;
        Ok(match reply.verdict {
            Verdict::Written => FinishOutcome::Done,
            _ => FinishOutcome::Lost,
        })
    }
}
