use std::time::Duration;

use async_trait::async_trait;
use idempotency::{
    PostgresStore,
    sqlx::{self, PgConnection, Row, postgres::PgRow},
};
use tokio::{sync::Notify, time};

use super::{Delivery, Event, Outbox, Outcome, State, Taken};
use crate::ledger::LedgerError;

/// A table beside the charges: an event is a row of the transaction of its charge, so it is there when the
/// charge is, and only then. Any number of processes send from it.
#[derive(Debug)]
pub(crate) struct PostgresOutbox {
    store: PostgresStore,
    committed: Notify,
}

/// One simple query is one transaction, so of several services one creates the table. It looks first:
/// `CREATE INDEX IF NOT EXISTS` locks out the charges of other services, also where the index exists.
const TABLE: &str = "
    SELECT pg_advisory_xact_lock(hashtextextended('payments_api', 0));
    DO $$ BEGIN
        IF to_regclass('payments_api_outbox') IS NULL THEN
            CREATE TABLE payments_api_outbox (
                id text PRIMARY KEY,
                body bytea NOT NULL,
                state text NOT NULL DEFAULT 'waiting'
                    CHECK (state IN ('waiting', 'delivered', 'given_up')),
                tries integer NOT NULL DEFAULT 0,
                next_try timestamptz NOT NULL DEFAULT now(),
                last_failure text
            );
            CREATE INDEX payments_api_outbox_due ON payments_api_outbox (next_try)
                WHERE state = 'waiting';
        END IF;
    END $$;";

const ADD: &str = "INSERT INTO payments_api_outbox (id, body) VALUES ($1, $2)";

/// Rows that another process takes at this moment are passed over; those it has taken are not due. A row
/// is locked no longer than this statement runs: what keeps it is its time, also when its taker dies.
const TAKE: &str = "
    WITH due AS (
        SELECT id FROM payments_api_outbox WHERE state = 'waiting' AND next_try <= now()
        ORDER BY next_try LIMIT $1 FOR UPDATE SKIP LOCKED)
    UPDATE payments_api_outbox AS event
    SET tries = tries + 1, next_try = now() + make_interval(secs => $2)
    FROM due WHERE event.id = due.id
    RETURNING event.id, body, tries";

/// A failure counts for whoever made the newest try, a delivery for everybody.
const TRIED: &str = "
    UPDATE payments_api_outbox
    SET state = $3, next_try = now() + make_interval(secs => $4), last_failure = $5
    WHERE id = $1 AND state <> 'delivered' AND (tries = $2 OR $3 = 'delivered')";

/// The ids grow with time.
const DELIVERIES: &str =
    "SELECT id, state, tries, last_failure FROM payments_api_outbox ORDER BY id";

/// How long the database has for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

impl PostgresOutbox {
    /// Sets its table up where it is missing.
    pub(crate) async fn open(store: PostgresStore) -> Result<Self, sqlx::Error> {
        sqlx::raw_sql(TABLE).execute(store.pool()).await?;
        Ok(Self { store, committed: Notify::new() })
    }

    /// Adds an event in the transaction of its effect.
    pub(crate) async fn add(
        &self,
        transaction: &mut PgConnection,
        event: &Event,
    ) -> Result<(), sqlx::Error> {
        let add = sqlx::query(ADD).bind(&event.id).bind(event.body.as_ref());
        add.execute(transaction).await?;
        Ok(())
    }

    /// What was added is committed. It is found without this, a little later.
    pub(crate) fn committed(&self) {
        self.committed.notify_one();
    }
}

#[async_trait]
impl Outbox for PostgresOutbox {
    async fn take(&self, most: usize, hold: Duration) -> Result<Vec<Taken>, LedgerError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let take = sqlx::query(TAKE).bind(most).bind(hold.as_secs_f64());
        let rows = time::timeout(PATIENCE, take.fetch_all(self.store.pool())).await??;
        rows.iter().map(|row| taken(row).map_err(LedgerError::from)).collect()
    }

    async fn tried(&self, taken: &Taken, outcome: Outcome) -> Result<(), LedgerError> {
        let (state, wait, last_failure) = outcome.into_parts();
        let tried = sqlx::query(TRIED)
            .bind(&taken.event.id)
            .bind(i32::try_from(taken.tries).unwrap_or(i32::MAX))
            .bind(name(state))
            .bind(wait.as_secs_f64())
            .bind(last_failure);
        time::timeout(PATIENCE, tried.execute(self.store.pool())).await??;
        Ok(())
    }

    async fn added(&self) {
        self.committed.notified().await;
    }

    async fn deliveries(&self) -> Result<Vec<Delivery>, LedgerError> {
        let rows = sqlx::query(DELIVERIES).fetch_all(self.store.pool()).await?;
        rows.iter().map(|row| delivery(row).map_err(LedgerError::from)).collect()
    }

    fn is_durable(&self) -> bool {
        true
    }
}

const fn name(state: State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Delivered => "delivered",
        State::GivenUp => "given_up",
    }
}

fn taken(row: &PgRow) -> Result<Taken, sqlx::Error> {
    let body: Vec<u8> = row.try_get("body")?;
    let event = Event { id: row.try_get("id")?, body: body.into() };
    Ok(Taken { event, tries: tries(row)? })
}

fn delivery(row: &PgRow) -> Result<Delivery, sqlx::Error> {
    let state = match row.try_get("state")? {
        "delivered" => State::Delivered,
        "given_up" => State::GivenUp,
        _ => State::Waiting,
    };
    let last_failure = row.try_get("last_failure")?;
    Ok(Delivery { id: row.try_get("id")?, state, tries: tries(row)?, last_failure })
}

fn tries(row: &PgRow) -> Result<u32, sqlx::Error> {
    Ok(row.try_get::<i32, _>("tries")?.unsigned_abs())
}
