//! Redis by URL: alone, by its socket, as a Cluster, by Sentinels.

use idempotency::{Connected, IdempotencyKey, Sharing, connect};
use test_servers::redis::{RedisCluster, RedisSentinel, RedisServer};

async fn is_a_store(connected: Connected) {
    let store = connected.store();
    assert_eq!((store.profile().name, store.profile().sharing), ("redis", Sharing::Server));
    assert!(connected.admin().is_some() && connected.doctor().is_some());
    assert!(connected.watch().is_some() && connected.sweep().is_none());
    let key = IdempotencyKey::new("scope", "key").unwrap();
    let token = idempotency::ClaimToken::random().unwrap();
    let claim = idempotency::ClaimRequest {
        key: &key,
        fingerprint: idempotency::Fingerprint::of_bytes("x"),
        token,
        lease: idempotency::Lease::DEFAULT,
        retention: idempotency::Retention::DEFAULT,
        takeover: idempotency::Takeover::Allow,
    };
    let _ = store.claim(claim).await.unwrap();
    assert!(store.lookup(&key).await.unwrap().is_some());
}

#[tokio::test]
async fn one_server_by_tcp_and_by_its_socket() {
    let server = RedisServer::start().unwrap();
    let limits =
        "max_response_bytes=9&max_checkpoint_bytes=8&timeout_ms=900&connect_timeout_ms=800";
    let url = format!("{}/2?namespace=a&{limits}", server.url());
    let connected = connect(&url).await.unwrap();
    let profile = connected.store().profile().clone();
    assert_eq!((profile.max_response_bytes, profile.max_checkpoint_bytes), (9, 8));
    is_a_store(connected).await;
    let url = format!("redis+unix://{}?namespace=b&db=3", server.socket());
    is_a_store(connect(&url).await.unwrap()).await;
    let keyspace = server.ask(&["INFO", "keyspace"]).unwrap();
    assert!(keyspace.contains("db2:keys=1") && keyspace.contains("db3:keys=1"), "{keyspace}");
}

#[tokio::test]
async fn a_cluster_and_sentinels_by_several_hosts() {
    let cluster = RedisCluster::start().unwrap();
    is_a_store(connect(&format!("{}?namespace=a", cluster.url())).await.unwrap()).await;
    let sentinel = RedisSentinel::start().unwrap();
    is_a_store(connect(&format!("{}?namespace=a", sentinel.url())).await.unwrap()).await;
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told_without_its_password() {
    // nobody listens there
    let error = connect("redis://u:hunter2@127.0.0.1:1").await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("cannot be reached") && !shown.contains("hunter2"), "{shown}");
}
