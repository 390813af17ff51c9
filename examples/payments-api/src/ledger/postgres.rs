use std::sync::Arc;

use async_trait::async_trait;
use axum::response::{IntoResponse, Response};
use idempotency::{
    FinishOutcome, PostgresStore, PostgresTransaction,
    sqlx::{self, Row, postgres::PgRow},
    tower::CurrentAttempt,
};

use super::{Effect, Entry, Ledger, LedgerError};
use crate::{
    charge::Kind,
    webhooks::{Event, PostgresOutbox},
};

/// Charges, ledger and outbox as tables of the database that keeps the idempotency keys: rows and answer are
/// committed together or not at all.
#[derive(Debug)]
pub(crate) struct PostgresLedger {
    store: PostgresStore,
    outbox: Arc<PostgresOutbox>,
}

/// One simple query is one transaction, so of several services one creates the tables.
const TABLES: &str = "
    SELECT pg_advisory_xact_lock(hashtextextended('payments_api', 0));
    CREATE TABLE IF NOT EXISTS payments_api_charges (
        id text PRIMARY KEY,
        kind text NOT NULL CHECK (kind IN ('charge', 'refund')),
        account text NOT NULL,
        customer text NOT NULL,
        amount bigint NOT NULL CHECK (amount > 0),
        currency text NOT NULL
    );
    CREATE TABLE IF NOT EXISTS payments_api_ledger (
        line bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        charge text NOT NULL REFERENCES payments_api_charges,
        attempt bigint,
        key_digest text
    );";

const CHARGE: &str = "INSERT INTO payments_api_charges (id, kind, account, customer, amount, currency) \
                      VALUES ($1, $2, $3, $4, $5, $6)";
const LINE: &str =
    "INSERT INTO payments_api_ledger (charge, attempt, key_digest) VALUES ($1, $2, $3)";
const EFFECTS: &str = "SELECT id, kind, account, customer, amount, currency, attempt, key_digest \
                       FROM payments_api_ledger JOIN payments_api_charges ON id = charge ORDER BY line";

impl PostgresLedger {
    /// Sets its tables up where they are missing.
    pub(crate) async fn open(
        store: PostgresStore,
        outbox: Arc<PostgresOutbox>,
    ) -> Result<Self, sqlx::Error> {
        sqlx::raw_sql(TABLES).execute(store.pool()).await?;
        Ok(Self { store, outbox })
    }
}

#[async_trait]
impl Ledger for PostgresLedger {
    async fn write(
        &self,
        effect: &Effect,
        event: Option<Event>,
    ) -> Result<Box<dyn Entry>, LedgerError> {
        // amounts that do not fit were refused as orders
        let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
        let mut transaction = self.store.begin().await?;
        sqlx::query(CHARGE)
            .bind(&effect.id)
            .bind(effect.kind.name())
            .bind(&effect.account)
            .bind(&effect.customer)
            .bind(number(effect.amount))
            .bind(&effect.currency)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(LINE)
            .bind(&effect.id)
            .bind(effect.attempt.map(number))
            .bind(&effect.key_digest)
            .execute(&mut *transaction)
            .await?;
        if let Some(event) = event {
            self.outbox.add(&mut transaction, &event).await?;
        }
        let (store, outbox) = (self.store.clone(), Arc::clone(&self.outbox));
        Ok(Box::new(Written { store, outbox, transaction }))
    }

    async fn effects(&self) -> Result<Vec<Effect>, LedgerError> {
        let rows = sqlx::query(EFFECTS).fetch_all(self.store.pool()).await?;
        rows.iter().map(|row| effect(row).map_err(LedgerError::from)).collect()
    }
}

fn effect(row: &PgRow) -> Result<Effect, sqlx::Error> {
    let number = |column| row.try_get::<Option<i64>, _>(column);
    Ok(Effect {
        id: row.try_get("id")?,
        kind: match row.try_get("kind")? {
            "charge" => Kind::Charge,
            _ => Kind::Refund,
        },
        account: row.try_get("account")?,
        customer: row.try_get("customer")?,
        amount: number("amount")?.unwrap_or_default().unsigned_abs(),
        currency: row.try_get("currency")?,
        attempt: number("attempt")?.map(i64::unsigned_abs),
        key_digest: row.try_get("key_digest")?,
    })
}

/// Rows that nobody else sees yet.
struct Written {
    store: PostgresStore,
    outbox: Arc<PostgresOutbox>,
    transaction: PostgresTransaction,
}

#[async_trait]
impl Entry for Written {
    async fn commit(
        mut self: Box<Self>,
        attempt: Option<&CurrentAttempt>,
        response: Response,
    ) -> Result<Response, LedgerError> {
        let Some(attempt) = attempt else {
            self.transaction.commit().await?;
            self.outbox.committed();
            return Ok(response);
        };
        let (answer, response) = attempt.answer_of(response).await;
        match self.store.complete_in(&mut self.transaction, attempt, &answer).await? {
            FinishOutcome::Done => {
                // what a commit that fails came to is found out by the layer
                self.transaction.commit().await?;
                self.outbox.committed();
                Ok(response.into_response())
            }
            FinishOutcome::Lost | FinishOutcome::Restored => {
                self.transaction.rollback().await;
                Err(LedgerError::Lost)
            }
        }
    }
}
