//! Servers that the tests share, and callers.

use std::{sync::OnceLock, time::Duration};

use bytes::Bytes;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, CompleteRequest, Fingerprint,
    FinishOutcome, IdempotencyKey, IdempotencyStore, Lease, Namespace, Release, ReleaseOutcome,
    ReleaseRequest, RenewOutcome, RenewRequest, Retention, StoreError, Takeover,
};
use idempotency_redis::{RedisStore, redis};
use test_servers::redis::{RedisCluster, RedisServer};

/// The server of all tests that do it no harm.
pub(crate) fn server() -> &'static RedisServer {
    static SERVER: OnceLock<RedisServer> = OnceLock::new();
    SERVER.get_or_init(|| RedisServer::start().unwrap())
}

/// The Cluster of all tests that do it no harm.
pub(crate) fn cluster() -> &'static RedisCluster {
    static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
    CLUSTER.get_or_init(|| RedisCluster::start().unwrap())
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
pub(crate) async fn fresh(url: &str) -> RedisStore {
    connect(url, &unique_namespace()).await
}

pub(crate) async fn connect(url: &str, namespace: &Namespace) -> RedisStore {
    RedisStore::builder().namespace(namespace.clone()).connect(url).await.unwrap()
}

/// A client of the driver's, past the store.
pub(crate) async fn raw(server: &RedisServer) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
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

/// Evaluates the expression until it has an answer; a minute is too long. A macro, because a task that
/// calls an async closure is not known to be `Send`.
macro_rules! soon {
    ($what:expr, $ask:expr) => {{
        let clock = idempotency_core::SystemClock::new();
        loop {
            if let Some(answer) = $ask {
                break answer;
            }
            let waited = idempotency_core::Clock::monotonic(&clock);
            assert!(waited < std::time::Duration::from_mins(1), "never: {}", $what);
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }};
}
pub(crate) use soon;

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
