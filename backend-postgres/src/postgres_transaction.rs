use std::{
    ops::{Deref, DerefMut},
    pin::pin,
};

use idempotency_core::{ErrorKind, Operation, StoreError};
use sqlx::{PgConnection, postgres::PgTransactionManager};
use sqlx_core::transaction::TransactionManager;
use tokio::time;

use crate::{
    PostgresStore,
    call::{Borrowed, Caller, MAX_CONNECTIONS},
    error,
};

/// A transaction on a connection of the store's pool, for rows of the caller's own and the answer that is
/// committed with them. Derefs to its connection; `begin` on that makes a savepoint.
///
/// Unlike the driver's own it never holds its place in the pool for ever: dropped, it is rolled back in
/// the background, and a server that does not answer in time loses the connection.
#[derive(Debug)]
#[must_use = "commit it; a dropped transaction is rolled back"]
pub struct PostgresTransaction {
    connection: Borrowed,
    is_open: bool,
}

impl PostgresStore {
    /// Begins a transaction on a connection of the store's pool.
    ///
    /// # Errors
    /// No connection, or no answer, within the time-out of an operation. Nothing was begun.
    ///
    /// # Cancel safety
    /// Dropping the future leaves no transaction open: what comes of it later is rolled back.
    pub async fn begin(&self) -> Result<PostgresTransaction, StoreError> {
        let caller = self.inner.caller.clone();
        // in a task that nobody cancels: a BEGIN that is dropped half-way returns its connection to the
        // pool inside a transaction (sqlx 0.8.4 to 0.9.0)
        let begun = tokio::spawn(async move { begin(&caller).await });
        begun.await.unwrap_or_else(|_| {
            let error = StoreError::new(BEGIN, ErrorKind::Unavailable, "the runtime ends");
            Err(error.without_effect())
        })
    }
}

const BEGIN: Operation = Operation::Claim;

async fn begin(caller: &Caller) -> Result<PostgresTransaction, StoreError> {
    let mut late = pin!(time::sleep(caller.timeout));
    let too_late = || {
        let detail = format!("no transaction within {:?}", caller.timeout);
        StoreError::new(BEGIN, ErrorKind::Timeout, detail).without_effect()
    };
    let mut connections = 0;
    loop {
        let borrowed = tokio::select! {
            biased;
            borrowed = caller.borrow() => borrowed,
            () = &mut late => return Err(too_late()),
        };
        let failed = |failure| error::classify(BEGIN, failure).without_effect();
        let mut connection = borrowed.map_err(failed)?;
        let begun = tokio::select! {
            biased;
            begun = PgTransactionManager::begin(&mut connection, None) => Some(begun),
            () = &mut late => None,
        };
        match begun {
            Some(Ok(())) => return Ok(PostgresTransaction { connection, is_open: true }),
            // whether the server has begun is not known: the connection never returns to the pool
            None => {
                connection.close();
                return Err(too_late());
            }
            Some(Err(failure)) => {
                connection.close();
                connections += 1;
                // those of a pool may all be dead, after the server was started anew
                if !error::is_disconnection(&failure) || connections >= MAX_CONNECTIONS {
                    return Err(failed(failure));
                }
            }
        }
    }
}

impl PostgresTransaction {
    /// Commits. A transaction in which a statement has failed is rolled back by the server instead, and
    /// the driver does not tell: never hide the error of a statement. Behind
    /// [`complete_in`](PostgresStore::complete_in) whoever began the attempt finds out.
    ///
    /// # Errors
    /// Without effect: refused, and rolled back. Else the connection failed, or the server did not
    /// answer within the time-out of an operation: it may have been committed.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the transaction committed or rolled back.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        let timeout = self.connection.patience();
        let committing = PgTransactionManager::commit(&mut self.connection);
        let Ok(committed) = time::timeout(timeout, committing).await else {
            let detail = format!("no answer to the commit within {timeout:?}");
            return Err(StoreError::new(Operation::Complete, ErrorKind::Timeout, detail));
        };
        committed.map_err(|failure| error::classify(Operation::Complete, failure))?;
        self.is_open = false;
        Ok(())
    }

    /// Rolls back. A rollback that fails has lost its connection, and the server rolls back by itself.
    pub async fn rollback(mut self) {
        let timeout = self.connection.patience();
        let rolling_back = PgTransactionManager::rollback(&mut self.connection);
        if let Ok(Ok(())) = time::timeout(timeout, rolling_back).await {
            self.is_open = false;
        }
    }
}

impl Deref for PostgresTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for PostgresTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for PostgresTransaction {
    fn drop(&mut self) {
        // sent by whatever uses the connection next: here, by what drains it
        while self.is_open && PgTransactionManager::get_transaction_depth(&self.connection) > 0 {
            PgTransactionManager::start_rollback(&mut self.connection);
        }
    }
}
