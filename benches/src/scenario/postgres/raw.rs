use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use idempotency::sqlx::{self, PgConnection, PgPool, postgres::PgPoolOptions};
use tokio::sync::{Mutex, MutexGuard};

use crate::load::{Intent, RESPONSE_BYTES};

/// Raw statements against a table of the same width with the same indexes, through the same driver. Each
/// client has a connection of its own: the driver's pool would ask the server whether it is there whenever
/// it takes one back, and the store has no such round trip either.
#[derive(Clone)]
pub(super) struct Raw {
    pub(super) pool: PgPool,
    pinned: Arc<[Mutex<PgConnection>]>,
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS bench_raw (key text COLLATE \"C\" PRIMARY KEY, \
    lease_until timestamptz, expires_at timestamptz NOT NULL, first timestamptz NOT NULL, \
    claimed timestamptz NOT NULL, sweep_at timestamptz NOT NULL, retention bigint NOT NULL, \
    attempt bigint NOT NULL, sequence bigint NOT NULL, token uuid NOT NULL, format int2 NOT NULL, \
    state int2 NOT NULL, waited boolean NOT NULL, fingerprint bytea NOT NULL, response bytea); \
    CREATE INDEX IF NOT EXISTS bench_raw_sweep_at ON bench_raw (sweep_at)";
const INSERT: &str = "INSERT INTO bench_raw VALUES ($1, now() + interval '30 s', \
    now() + interval '1 d', now(), now(), now() + interval '1 d', 86400000, 1, 0, $2, 1, 0, false, $3)";
const SELECT: &str =
    "SELECT attempt, state, fingerprint, token, response FROM bench_raw WHERE key = $1";

impl Raw {
    pub(super) async fn connect(url: &str, connections: usize) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(30))
            .test_before_acquire(false)
            .connect(url)
            .await?;
        sqlx::raw_sql(CREATE).execute(&pool).await?;
        let mut pinned = Vec::new();
        for _ in 0..connections {
            pinned.push(Mutex::new(pool.acquire().await?.detach()));
        }
        Ok(Self { pool, pinned: pinned.into() })
    }

    /// The connection of a client.
    async fn of(&self, client: usize) -> anyhow::Result<MutexGuard<'_, PgConnection>> {
        let pinned = self.pinned.get(client % self.pinned.len());
        Ok(pinned.context("no connection")?.lock().await)
    }

    pub(super) fn key(intent: &Intent) -> String {
        let scope = intent.key.scope_name().unwrap_or_default();
        format!("idempotency/{scope}/{}", intent.key.key())
    }

    pub(super) async fn insert(
        &self,
        client: usize,
        intent: &Intent,
        fingerprint: &[u8],
    ) -> anyhow::Result<()> {
        let token = sqlx::types::Uuid::from_bytes(*intent.token.as_bytes());
        let insert = sqlx::query(INSERT).bind(Self::key(intent)).bind(token).bind(fingerprint);
        insert.execute(&mut *self.of(client).await?).await?;
        Ok(())
    }

    pub(super) async fn fill(&self, client: usize, intent: &Intent) -> anyhow::Result<()> {
        let update = sqlx::query("UPDATE bench_raw SET state = 3, response = $2 WHERE key = $1");
        let update = update.bind(Self::key(intent)).bind(vec![b'r'; RESPONSE_BYTES]);
        update.execute(&mut *self.of(client).await?).await?;
        Ok(())
    }

    pub(super) async fn select(&self, client: usize, intent: &Intent) -> anyhow::Result<()> {
        let select = sqlx::query(SELECT).bind(Self::key(intent));
        let row = select.fetch_one(&mut *self.of(client).await?).await?;
        let response: Vec<u8> = sqlx::Row::try_get(&row, 4)?;
        anyhow::ensure!(response.len() == RESPONSE_BYTES, "{} bytes", response.len());
        Ok(())
    }
}
