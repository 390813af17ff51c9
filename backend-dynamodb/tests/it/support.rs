//! The emulator that the tests share, and stores on it.

use std::{collections::HashMap, net::SocketAddr, sync::OnceLock, time::Duration};

use idempotency_conformance::unique_namespace;
use idempotency_core::Namespace;
use idempotency_dynamodb::{
    DynamoDbStore, DynamoDbStoreBuilder, aws_sdk_dynamodb::types::AttributeValue,
};
use test_servers::dynamodb::{DynamoDbEmulator, DynamoDbProxy};
pub(crate) use test_servers::{
    Caller, count, is_full, key, lease, replayed, retention, soon, until_abandoned,
};

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
