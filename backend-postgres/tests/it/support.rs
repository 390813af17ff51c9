//! Servers that the tests share, and callers.

use std::{sync::OnceLock, time::Duration};

use bytes::Bytes;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, Clock, CompleteRequest, Fingerprint,
    FinishOutcome, IdempotencyKey, IdempotencyStore, Lease, Namespace, Release, ReleaseOutcome,
    ReleaseRequest, RenewOutcome, RenewRequest, Retention, Schema, StoreError, SystemClock,
    Takeover,
};
use idempotency_postgres::{
    PostgresStore, PostgresStoreBuilder,
    sqlx::{self, AssertSqlSafe, PgPool, postgres::PgPoolOptions},
};
use test_servers::postgres::{BouncerOptions, PgBouncer, PostgresProgram, PostgresServer};
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

/// Whether `IDEMPOTENCY_TEST=full`.
pub(crate) fn is_full() -> bool {
    std::env::var("IDEMPOTENCY_TEST").is_ok_and(|value| value == "full")
}

/// `usual`, or `full` in the full run.
pub(crate) fn count(usual: u32, full: u32) -> u32 {
    if is_full() { full } else { usual }
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

pub(crate) fn key(name: impl std::fmt::Display) -> IdempotencyKey {
    IdempotencyKey::new("shop", name.to_string()).unwrap()
}

pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::of_bytes("the request")
}

pub(crate) fn lease(millis: u64) -> Lease {
    Lease::new(Duration::from_millis(millis)).unwrap()
}

pub(crate) fn retention(millis: u64) -> Retention {
    Retention::new(Duration::from_millis(millis)).unwrap()
}

/// Waits until `ask` has an answer; a minute is too long.
pub(crate) async fn soon<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let clock = SystemClock::new();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(clock.monotonic() < Duration::from_mins(1), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One attempt at one key.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) key: IdempotencyKey,
    pub(crate) token: ClaimToken,
    pub(crate) attempt: AttemptNumber,
    pub(crate) lease: Lease,
    pub(crate) retention: Retention,
    pub(crate) takeover: Takeover,
}

impl Caller {
    pub(crate) fn new(key: &IdempotencyKey) -> Self {
        Self {
            key: key.clone(),
            token: ClaimToken::random().unwrap(),
            attempt: AttemptNumber::FIRST,
            lease: Lease::DEFAULT,
            retention: Retention::DEFAULT,
            takeover: Takeover::Allow,
        }
    }

    pub(crate) async fn claim(
        &self,
        store: &impl IdempotencyStore,
    ) -> Result<ClaimOutcome, StoreError> {
        let request = ClaimRequest {
            key: &self.key,
            fingerprint: fingerprint(),
            token: self.token,
            lease: self.lease,
            retention: self.retention,
            takeover: self.takeover,
        };
        store.claim(request).await
    }

    /// Claims, and must be acquired.
    pub(crate) async fn acquire(&self, store: &impl IdempotencyStore) {
        let outcome = self.claim(store).await.unwrap();
        assert!(matches!(outcome, ClaimOutcome::Acquired(_)), "{outcome:?}");
    }

    pub(crate) async fn complete(
        &self,
        store: &impl IdempotencyStore,
        response: impl Into<Bytes>,
    ) -> Result<FinishOutcome, StoreError> {
        let request = CompleteRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            fingerprint: fingerprint(),
            response: response.into(),
            retention: self.retention,
        };
        store.complete(request).await
    }

    pub(crate) async fn renew(
        &self,
        store: &impl IdempotencyStore,
        sequence: u64,
    ) -> Result<RenewOutcome, StoreError> {
        let request = RenewRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            sequence: sequence.try_into().unwrap(),
            lease: self.lease,
            checkpoint: Some("checkpoint".into()),
        };
        store.renew(request).await
    }

    pub(crate) async fn release(
        &self,
        store: &impl IdempotencyStore,
        release: Release,
    ) -> Result<ReleaseOutcome, StoreError> {
        let (key, token, attempt) = (&self.key, self.token, self.attempt);
        store.release(ReleaseRequest { key, token, attempt, release }).await
    }
}

/// The response that is replayed for a key.
pub(crate) async fn replayed(store: &impl IdempotencyStore, key: &IdempotencyKey) -> Bytes {
    match Caller::new(key).claim(store).await.unwrap() {
        ClaimOutcome::Replay(replay) => replay.response,
        other => panic!("{other:?}"),
    }
}
