use idempotency_core::{
    Answer, Attempt, DetachedClaim, Effect, FinishOutcome, Operation, Recorded, Release, StoreError,
};
use sqlx::PgConnection;

use crate::{PostgresStore, PostgresTransaction, TransactionError, error};

/// A claim and the transaction that holds it, until it is committed or rolled back.
///
/// Dropping it rolls the transaction back and leaves the key to its lease.
#[derive(Debug)]
#[must_use = "commit it or roll it back; a dropped guard leaves its key to the lease"]
pub struct TransactionGuard {
    store: PostgresStore,
    claim: DetachedClaim,
    transaction: PostgresTransaction,
}

impl TransactionGuard {
    pub(crate) const fn new(
        store: PostgresStore,
        claim: DetachedClaim,
        transaction: PostgresTransaction,
    ) -> Self {
        Self { store, claim, transaction }
    }

    pub(crate) const fn claim(&self) -> &DetachedClaim {
        &self.claim
    }

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
                transaction.rollback().await;
                claim.lost();
                return Err(TransactionError::Lost);
            }
            Err(error) => return rolled_back(transaction, claim, error).await,
        }
        let Err(failure) = transaction.commit().await else {
            return Ok(claim.finished(FinishOutcome::Done, &answer));
        };
        if failure.effect() == Effect::None {
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
        self.transaction.rollback().await;
        let _told = self.claim.release(release).await;
    }

    pub(crate) async fn execute(&mut self, statement: &'static str) -> Result<(), StoreError> {
        let failed = |source| error::classify(Operation::Claim, source);
        sqlx::raw_sql(statement).execute(&mut *self.transaction).await.map_err(failed)?;
        Ok(())
    }
}

async fn rolled_back(
    transaction: PostgresTransaction,
    claim: DetachedClaim,
    error: StoreError,
) -> Result<Recorded, TransactionError> {
    transaction.rollback().await;
    let _told = claim.release(Release::Failed).await;
    Err(TransactionError::RolledBack(error))
}
