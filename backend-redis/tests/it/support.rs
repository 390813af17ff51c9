//! Servers that the tests share, and stores on them.

use std::{sync::OnceLock, time::Duration};

use idempotency_conformance::unique_namespace;
use idempotency_core::Namespace;
use idempotency_redis::{RedisStore, redis};
use test_servers::redis::{RedisCluster, RedisServer};
pub(crate) use test_servers::{Caller, count, fingerprint, is_full, key, lease, replayed, soon};

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

/// A store with short time-outs, for servers that do not answer.
pub(crate) async fn impatient(url: &str, namespace: &Namespace) -> RedisStore {
    RedisStore::builder()
        .namespace(namespace.clone())
        .timeout(Duration::from_millis(500))
        .connect_timeout(Duration::from_millis(400))
        .connect(url)
        .await
        .unwrap()
}

/// No key of the namespace is without an expiry.
pub(crate) async fn every_key_expires(server: &RedisServer, namespace: &Namespace) {
    let mut raw = raw(server).await;
    let pattern = format!("{}/*", namespace.name());
    let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut raw).await.unwrap();
    assert!(!keys.is_empty());
    for key in keys {
        let left: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut raw).await.unwrap();
        assert!(left > 0, "{left}");
    }
}
