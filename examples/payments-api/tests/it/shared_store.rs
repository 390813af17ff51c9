//! Keys in a store that two processes share.

use test_servers::{dynamodb::DynamoDbEmulator, redis::RedisServer};

use crate::service::{Service, charge};

/// Kind of fault: state per process (H-60). A retry on another replica, or after a restart, is replayed.
async fn a_charge_is_replayed_by_another_process(store: &str) {
    let first = Service::start(&["--store", store]).await;
    let second = Service::start(&["--store", store]).await;
    let charged = first.send(charge("tok_visa").key("order-1")).await;
    assert_eq!((charged.status.as_u16(), charged.is_replay()), (201, false));
    let again = second.send(charge("tok_visa").key("order-1")).await;
    assert!(again.is_replay() && again.body == charged.body, "{again:?}");
    let other = second.send(charge("tok_visa").key("order-1").customer("cus_2")).await;
    assert_eq!(other.status, 422);
    assert!(second.effects().await.is_empty());
    first.kill().await;
    let restarted = Service::start(&["--store", store]).await;
    let again = restarted.send(charge("tok_visa").key("order-1")).await;
    assert!(again.is_replay() && again.body == charged.body, "{again:?}");
    assert!(restarted.effects().await.is_empty());
}

#[tokio::test]
async fn a_charge_is_replayed_from_a_table_of_dynamodb() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let store = format!("{}&create=on&timeout_ms=20000", emulator.url("payments"));
    a_charge_is_replayed_by_another_process(&store).await;
}

#[tokio::test]
async fn a_charge_is_replayed_from_redis() {
    let server = RedisServer::start().unwrap();
    let store = format!("{}?timeout_ms=20000", server.url());
    a_charge_is_replayed_by_another_process(&store).await;
}
