//! TLS and Unix sockets: the same store over another way to the server.

use idempotency_conformance::unique_namespace;
use idempotency_core::{FinishOutcome, IdempotencyStore};
use idempotency_redis::RedisStore;
use test_servers::redis::RedisServer;

use crate::support::{Caller, fresh, key, replayed, server};

async fn works(store: &RedisStore) {
    let caller = Caller::new(&key("k"));
    caller.acquire(store).await;
    assert_eq!(caller.complete(store, "over it").await.unwrap(), FinishOutcome::Done);
    assert_eq!(replayed(store, &caller.key).await, "over it");
    assert!(store.lookup(&caller.key).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_works_over_a_unix_socket() {
    let store = fresh(&format!("redis+unix://{}", server().socket())).await;
    works(&store).await;
    // in a database of its own, as the URL says
    let other = fresh(&format!("redis+unix://{}?db=3", server().socket())).await;
    works(&other).await;
    assert!(server().ask(&["INFO", "keyspace"]).unwrap().contains("db3:"));
}

/// A certificate of an authority that is named is believed, any other one is not; waiters and lists go the same
/// way; and a cut connection is made anew with it.
#[cfg(feature = "tokio-rustls-comp")]
#[tokio::test(flavor = "multi_thread")]
async fn a_store_works_over_tls_and_believes_only_whom_it_should() {
    use std::time::Duration;

    use idempotency_core::{ErrorKind, ListQuery, StoreAdmin, Watch};
    use idempotency_redis::redis::TlsCertificates;

    use crate::support::soon;

    let server = RedisServer::options().tls().start().unwrap();
    let (url, authority) = server.tls().unwrap();
    let certificates =
        |pem: &str| TlsCertificates { client_tls: None, root_cert: Some(pem.as_bytes().to_vec()) };
    let believing = || {
        let builder = RedisStore::builder().namespace(unique_namespace());
        builder.tls_certificates(certificates(&authority))
    };
    let store = believing().connect(&url).await.unwrap();
    works(&store).await;
    assert_eq!(store.list(ListQuery::default()).await.unwrap().records.len(), 1);
    let caller = Caller::new(&key("watched"));
    caller.acquire(&store).await;
    let mut watching = store.watch(&caller.key).await.unwrap();
    assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
    let told = tokio::time::timeout(Duration::from_secs(10), watching.changed()).await;
    told.expect("told in time").unwrap();
    server.ask(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    let found = soon!("a new connection", store.lookup(&caller.key).await.ok());
    assert!(found.is_some());

    // an authority that nobody here knows
    let error = RedisStore::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let stranger = RedisServer::options().tls().start().unwrap();
    let error = believing().connect(&stranger.tls().unwrap().0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // certificates are never silently left out
    let error = believing().connect(&server.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let builder = RedisStore::builder().tls_certificates(certificates("no certificate"));
    let error = builder.connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
