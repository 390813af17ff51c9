//! Servers that the tests share, and stores on them.

use std::sync::OnceLock;

use idempotency_conformance::unique_namespace;
use idempotency_core::{Namespace, Schema};
use idempotency_postgres::{
    PostgresStore, PostgresStoreBuilder,
    sqlx::{self, AssertSqlSafe, PgPool, postgres::PgPoolOptions},
};
use test_servers::postgres::{BouncerOptions, PgBouncer, PostgresProgram, PostgresServer};
pub(crate) use test_servers::{
    Caller, count, fingerprint, is_full, key, lease, replayed, retention, soon,
};
use tokio::runtime::Runtime;

/// The table of all tests that need none of their own.
pub(crate) const TABLE: &str = "public.idempotency_keys";

/// The server of all tests that do it no harm, with the default table.
pub(crate) fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = PostgresServer::start().unwrap();
        set_up(&server);
        server
    })
}

/// The system's `PgBouncer` before that server.
pub(crate) fn bouncer() -> &'static PgBouncer {
    static BOUNCER: OnceLock<PgBouncer> = OnceLock::new();
    BOUNCER.get_or_init(|| PgBouncer::start(server()).unwrap())
}

/// The newest server, in the full run.
pub(crate) fn newest() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let program = PostgresProgram::newest().expect(PostgresProgram::NEWEST);
        let server = PostgresServer::options().program(program).start().unwrap();
        set_up(&server);
        server
    })
}

/// A pooler that the store works through. In the full run the newest one in transaction mode, else the
/// system's in session mode: before 1.21 it knows no prepared statements in transaction mode.
pub(crate) fn pooler() -> &'static PgBouncer {
    static BOUNCER: OnceLock<PgBouncer> = OnceLock::new();
    BOUNCER.get_or_init(|| {
        let options = if is_full() {
            let newest = BouncerOptions::newest().expect(BouncerOptions::NEWEST);
            newest.set("max_prepared_statements", "100")
        } else {
            // a session keeps its connection, and every test has a few
            BouncerOptions::default().set("pool_mode", "session").set("default_pool_size", "100")
        };
        options.start(server()).unwrap()
    })
}

/// Sets the default table up, on a thread of its own: the caller may be inside a runtime.
pub(crate) fn set_up(server: &PostgresServer) {
    let url = server.url();
    let create = move || runtime().block_on(create(&url));
    std::thread::spawn(create).join().unwrap();
}

async fn create(url: &str) {
    let store = PostgresStore::builder().build_lazy(url).unwrap();
    store.create().await.unwrap();
    store.pool().close().await;
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A store of a namespace that nobody has used.
pub(crate) async fn fresh(url: &str) -> PostgresStore {
    connect(url, &unique_namespace()).await
}

pub(crate) async fn connect(url: &str, namespace: &Namespace) -> PostgresStore {
    builder(namespace).connect(url).await.unwrap()
}

pub(crate) fn builder(namespace: &Namespace) -> PostgresStoreBuilder {
    // many tests share the server
    PostgresStore::builder().namespace(namespace.clone()).max_connections(6)
}

/// Connections past the store.
pub(crate) fn raw(url: &str) -> PgPool {
    PgPoolOptions::new().max_connections(4).connect_lazy(url).unwrap()
}

/// A statement of a test's own, past the store.
pub(crate) async fn execute(pool: &PgPool, statement: impl Into<String>) -> u64 {
    let statement = AssertSqlSafe(statement.into());
    sqlx::raw_sql(statement).execute(pool).await.unwrap().rows_affected()
}

/// One number.
pub(crate) async fn number(pool: &PgPool, question: impl Into<String>) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(question.into())).fetch_one(pool).await.unwrap()
}

/// A URL whose sessions have a setting.
pub(crate) fn with_setting(url: &str, setting: &str, value: &str) -> String {
    let value = value.replace(' ', "\\ ");
    let option = format!("-c {setting}={value}").replace('\\', "%5C").replace(' ', "%20");
    format!("{url}?options={}", option.replace('=', "%3D"))
}
