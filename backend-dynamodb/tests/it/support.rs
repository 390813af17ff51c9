//! The emulator that the tests share, and callers.

use std::{collections::HashMap, net::SocketAddr, sync::OnceLock, time::Duration};

use bytes::Bytes;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, Clock, CompleteRequest, Fingerprint,
    FinishOutcome, IdempotencyKey, IdempotencyStore, Lease, Namespace, Release, ReleaseOutcome,
    ReleaseRequest, RenewOutcome, RenewRequest, Retention, StoreError, SystemClock, Takeover,
};
use idempotency_dynamodb::{
    DynamoDbStore, DynamoDbStoreBuilder, aws_sdk_dynamodb::types::AttributeValue,
};
use test_servers::dynamodb::{DynamoDbEmulator, DynamoDbProxy};

/// The table of all tests that need none of their own.
pub(crate) const TABLE: &str = "idempotency";

/// The bound of the clocks in tests: one machine has one clock.
pub(crate) const SKEW_BOUND: Duration = Duration::from_millis(200);

/// The emulator of all tests that do it no harm, with the default table.
pub(crate) fn emulator() -> &'static DynamoDbEmulator {
    static EMULATOR: OnceLock<DynamoDbEmulator> = OnceLock::new();
    EMULATOR.get_or_init(|| {
        let emulator = DynamoDbEmulator::start().unwrap();
        let store = builder(&Namespace::default()).endpoint(emulator.endpoint()).create(true);
        // on a thread of its own: the caller may be inside a runtime
        let create = move || runtime().block_on(store.connect());
        std::thread::spawn(create).join().unwrap().unwrap();
        emulator
    })
}

/// A proxy before that emulator, and a store behind it that has compared the clocks.
pub(crate) async fn proxied() -> (DynamoDbProxy, DynamoDbStore) {
    proxied_in(&unique_namespace()).await
}

pub(crate) async fn proxied_in(namespace: &Namespace) -> (DynamoDbProxy, DynamoDbStore) {
    let proxy = DynamoDbProxy::start(emulator().address()).await.unwrap();
    let store = connect(proxy.address(), namespace).await;
    proxy.take_seen();
    (proxy, store)
}

/// The item of a key, past the store.
pub(crate) async fn item(
    store: &DynamoDbStore,
    table: &str,
    place: &str,
) -> Option<HashMap<String, AttributeValue>> {
    let place = AttributeValue::S(place.to_owned());
    let request = store.client().get_item().table_name(table).key("pk", place);
    request.consistent_read(true).send().await.unwrap().item
}

/// Puts an item, past the store.
pub(crate) async fn put(store: &DynamoDbStore, table: &str, item: HashMap<String, AttributeValue>) {
    store.client().put_item().table_name(table).set_item(Some(item)).send().await.unwrap();
}

/// Lets all moments of an item be earlier by `millis`.
pub(crate) fn make_older(item: &mut HashMap<String, AttributeValue>, millis: u64) {
    for (name, value) in item.iter_mut() {
        let is_moment = name.ends_with("_ms") && name != "retention_ms";
        if let (true, AttributeValue::N(number)) = (is_moment, &*value) {
            let moment: u64 = number.parse().unwrap();
            *value = AttributeValue::N(moment.saturating_sub(millis).to_string());
        }
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
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

pub(crate) fn builder(namespace: &Namespace) -> DynamoDbStoreBuilder {
    DynamoDbStore::builder(TABLE)
        .unwrap()
        .namespace(namespace.clone())
        .skew_bound(SKEW_BOUND)
        // many tests share the emulator
        .timeout(Duration::from_secs(10))
}

/// A store of a namespace that nobody has used.
pub(crate) async fn fresh() -> DynamoDbStore {
    connect(emulator().address(), &unique_namespace()).await
}

pub(crate) async fn connect(address: SocketAddr, namespace: &Namespace) -> DynamoDbStore {
    builder(namespace).endpoint(format!("http://{address}")).connect().await.unwrap()
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

    pub(crate) fn completion(&self, response: impl Into<Bytes>) -> CompleteRequest<'_> {
        CompleteRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            fingerprint: fingerprint(),
            response: response.into(),
            retention: self.retention,
        }
    }

    pub(crate) async fn complete(
        &self,
        store: &impl IdempotencyStore,
        response: impl Into<Bytes>,
    ) -> Result<FinishOutcome, StoreError> {
        store.complete(self.completion(response)).await
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

/// Waits until the lease of the attempt at a key is over.
pub(crate) async fn until_abandoned(store: &impl IdempotencyStore, key: &IdempotencyKey) {
    let stranger = Caller { takeover: Takeover::Refuse, ..Caller::new(key) };
    soon("the end of a lease", async || {
        let outcome = stranger.claim(store).await.unwrap();
        matches!(outcome, ClaimOutcome::Abandoned(_)).then_some(())
    })
    .await;
}
