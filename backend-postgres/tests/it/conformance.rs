//! The whole suite, in each isolation and through `PgBouncer`.

use std::{net::SocketAddr, sync::OnceLock, time::Duration};

use idempotency_conformance::{
    Aged, Fixture, Harness, HarnessError, RawRecord, Suite, Written, unique_namespace,
};
use idempotency_core::{Connected, IdempotencyKey, Namespace, Sharing, StoreProfile, Survives};
use idempotency_postgres::{
    PostgresStoreBuilder,
    sqlx::{self, AssertSqlSafe, PgPool},
};
use test_servers::postgres::PostgresServer;

use crate::support::{TABLE, builder, is_full, newest, pooler, raw, runtime, server, with_setting};

fn profile() -> StoreProfile {
    let mut profile = StoreProfile::new("postgres");
    profile.remembers_not_started = true;
    profile.sharing = Sharing::Server;
    profile.survives = Survives::ServerCrash;
    profile
}

/// Where the store connects to, and the server behind that.
pub(crate) struct Postgres {
    url: String,
    server: &'static PostgresServer,
    /// Notifications do not pass a pooler in transaction mode.
    listen: bool,
    /// Past the store, to the server itself.
    raw: OnceLock<PgPool>,
}

impl Postgres {
    fn isolated(level: &str) -> Self {
        Self::on(server(), level)
    }

    pub(crate) fn on(server: &'static PostgresServer, level: &str) -> Self {
        let url = with_setting(&server.url(), "default_transaction_isolation", level);
        Self { url, server, listen: true, raw: OnceLock::new() }
    }

    /// Patient: on a busy machine a crowd waits longer for six connections than the usual 2 s. The cases
    /// about servers that do not answer have a store of their own.
    fn builder(&self, namespace: &Namespace) -> PostgresStoreBuilder {
        builder(namespace).listen(self.listen).timeout(Duration::from_secs(20))
    }

    fn raw(&self) -> &PgPool {
        self.raw.get_or_init(|| raw(&self.server.url()))
    }

    fn pooled() -> Self {
        Self { url: pooler().url(), server: server(), listen: !is_full(), raw: OnceLock::new() }
    }
}

impl Harness for Postgres {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let namespace = unique_namespace();
        let store = self.builder(&namespace).connect(&self.url).await?;
        Ok(Fixture::new(store.connected(), namespace))
    }

    fn profile(&self) -> StoreProfile {
        profile()
    }

    async fn age(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        duration: Duration,
    ) -> Result<Aged, HarnessError> {
        let moments =
            ["first_claimed_at", "claimed_at", "expires_at", "sweep_at", "lease_until", "ended_at"];
        let earlier = moments.map(|moment| format!("{moment} = {moment} - $2 * interval '1 ms'"));
        let earlier = format!("UPDATE {TABLE} SET {} WHERE key = $1", earlier.join(", "));
        let place = namespace.storage_key(key);
        let earlier = sqlx::query(AssertSqlSafe(earlier)).bind(place.as_str());
        earlier.bind(i64::try_from(duration.as_millis())?).execute(self.raw()).await?;
        Ok(Aged::Done)
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let store = self.builder(namespace).connect(&self.url).await?;
        Ok(Some(store.connected()))
    }

    /// A key is the primary key of its row and every column of a readable row is checked, so the table
    /// itself refuses the record of another key and one that lacks a field.
    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        record: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let format = match record {
            RawRecord::Foreign => 0_i16,
            RawRecord::NewerFormat => 2,
            RawRecord::Truncated | RawRecord::RecordOf(_) => return Ok(Some(Written::Impossible)),
        };
        let write = format!(
            "INSERT INTO {TABLE} (key, format, state, token, attempt, retention_ms, fingerprint, \
             first_claimed_at, claimed_at, expires_at, sweep_at) \
             VALUES ($1, $2, 77, gen_random_uuid(), -1, -1, '', 'epoch', 'epoch', '-infinity', \
             '-infinity') ON CONFLICT (key) DO UPDATE SET format = excluded.format, \
             expires_at = '-infinity', sweep_at = '-infinity'"
        );
        let place = namespace.storage_key(key);
        let write = sqlx::query(AssertSqlSafe(write)).bind(place.as_str()).bind(format);
        write.execute(self.raw()).await?;
        Ok(Some(Written::Done))
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.server.address())
    }

    async fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let url = format!("postgres://postgres@{address}/postgres");
        let store = builder(namespace).timeout(Duration::from_secs(2)).connect(&url).await?;
        Ok(Some(store.connected()))
    }
}

mod read_committed {
    idempotency_conformance::conformance_tests!(crate::conformance::Postgres::isolated(
        "read committed"
    ));
}

/// Another isolation is another reason to be sent again, not another statement: a few rounds will do.
fn run(harness: Postgres) {
    let suite = Suite::new(harness).parallel(12);
    let suite = if is_full() { suite } else { suite.quick() };
    let report = runtime().block_on(suite.run());
    assert!(report.is_green(), "{report}");
}

#[test]
fn the_suite_is_green_under_repeatable_read() {
    run(Postgres::isolated("repeatable read"));
    if is_full() {
        run(Postgres::on(newest(), "repeatable read"));
    }
}

#[test]
fn the_suite_is_green_under_serializable() {
    run(Postgres::isolated("serializable"));
    if is_full() {
        run(Postgres::on(newest(), "serializable"));
    }
}

#[test]
fn the_suite_is_green_through_a_pooler() {
    run(Postgres::pooled());
}
