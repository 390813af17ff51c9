//! TLS to one server, to a Cluster and to Sentinels: who is believed, and that nothing goes past it.

use std::time::Duration;

use idempotency_conformance::unique_namespace;
use idempotency_core::{Doctor, ErrorKind, FinishOutcome, IdempotencyStore, ListQuery, Watch};
use idempotency_redis::{
    RedisStore, RedisStoreBuilder,
    redis::{ClientTlsConfig, TlsCertificates, cluster::ClusterClientBuilder},
};
use test_servers::{
    Authority,
    redis::{RedisCluster, RedisSentinel, RedisServer},
};

use crate::{
    lists::list,
    support::{Caller, key, replayed, soon},
    transport::works,
};

fn certificates(pem: &str) -> TlsCertificates {
    TlsCertificates { client_tls: None, root_cert: Some(pem.as_bytes().to_vec()) }
}

/// A store of a new namespace that believes this authority and no other.
fn believing(authority: &Authority) -> RedisStoreBuilder {
    let builder = RedisStore::builder().namespace(unique_namespace());
    builder.tls_certificates(certificates(authority.pem()))
}

/// Somebody else's authority, and the system's certificates.
async fn strangers_are_not_believed(url: &str) {
    let stranger = Authority::generate().unwrap();
    for builder in [RedisStore::builder(), believing(&stranger)] {
        let error = builder.connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{url}: {error}");
        assert!(error.to_string().contains("certificate is not believed"), "{url}: {error}");
    }
}

/// What has a way of its own to the servers goes by TLS as well: waiters, lists and examinations.
async fn everything_else_works(store: &RedisStore) {
    assert_eq!(list(store, &ListQuery::default()).await, ["k"]);
    assert!(!store.examine().await.unwrap().is_empty());
    let caller = Caller::new(&key("watched"));
    caller.acquire(store).await;
    let mut watching = store.watch(&caller.key).await.unwrap();
    assert_eq!(caller.complete(store, "x").await.unwrap(), FinishOutcome::Done);
    let told = tokio::time::timeout(Duration::from_secs(10), watching.changed()).await;
    told.expect("told in time").unwrap();
}

/// Of the clients that are connected to the server, those that speak TLS and those that do not. The one
/// that asks is left out.
fn clients(server: &RedisServer) -> (usize, usize) {
    let encrypted = format!(" laddr=127.0.0.1:{} ", server.tls_port().unwrap());
    let clients = server.ask(&["CLIENT", "LIST", "TYPE", "normal"]).unwrap();
    let others = clients.lines().filter(|client| !client.contains(" cmd=client"));
    let (with, without): (Vec<_>, Vec<_>) = others.partition(|client| client.contains(&encrypted));
    (with.len(), without.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_works_over_tls_and_believes_only_whom_it_should() {
    let authority = Authority::generate().unwrap();
    let server = RedisServer::options().tls(&authority).start().unwrap();
    let url = server.tls_url().unwrap();
    let store = believing(&authority).connect(&url).await.unwrap();
    works(&store).await;
    everything_else_works(&store).await;
    let (with, without) = clients(&server);
    assert!(with > 0 && without == 0, "{with} and {without}");
    // a connection that was cut is made anew
    server.ask(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    let found = soon!("a new connection", store.lookup(&key("watched")).await.ok());
    assert!(found.is_some());
    strangers_are_not_believed(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_never_left_out_in_silence() {
    let authority = Authority::generate().unwrap();
    for url in ["redis://h", "redis+cluster://a,b", "redis+sentinel://a,b/s"] {
        let error = believing(&authority).connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
    }
    let builder = RedisStore::builder().tls_certificates(certificates("no certificate"));
    let error = builder.connect("rediss://h").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

/// A server can ask its clients for a certificate too.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_a_certificate_gets_the_one_that_is_given() {
    let authority = Authority::generate().unwrap();
    let options = RedisServer::options().tls(&authority).set("tls-auth-clients", "yes");
    let server = options.start().unwrap();
    let url = server.tls_url().unwrap();
    let with = |client: Option<(String, String)>| {
        let client_tls = client.map(|(certificate, key)| ClientTlsConfig {
            client_cert: certificate.into_bytes(),
            client_key: key.into_bytes(),
        });
        let root_cert = Some(authority.pem().as_bytes().to_vec());
        let builder = RedisStore::builder().namespace(unique_namespace());
        builder.tls_certificates(TlsCertificates { client_tls, root_cert })
    };
    works(&with(Some(authority.certificate().unwrap())).connect(&url).await.unwrap()).await;
    let stranger = Authority::generate().unwrap().certificate().unwrap();
    for client in [None, Some(stranger)] {
        // the server hangs up after the greeting, which may be when the first command comes
        let error = match with(client).connect(&url).await {
            Ok(store) => Caller::new(&key("k")).claim(&store).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

/// The nodes that are named tell of the others; those are spoken to in the same way, also after one of them
/// has died and its replica has taken over.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_works_over_tls_on_all_its_nodes() {
    let authority = Authority::generate().unwrap();
    let cluster = RedisCluster::start_of(RedisServer::options().tls(&authority)).unwrap();
    let url = cluster.tls_url().unwrap();
    let store = believing(&authority).connect(&url).await.unwrap();
    works(&store).await;
    everything_else_works(&store).await;
    let callers: Vec<_> = (0..20).map(|number| Caller::new(&key(number))).collect();
    for caller in &callers {
        caller.acquire(&store).await;
    }
    for primary in &cluster.nodes()[..3] {
        let (with, without) = clients(primary);
        assert!(with > 0 && without == 0, "{with} and {without}");
    }
    cluster.nodes()[0].ask(&["WAIT", "1", "2000"]).unwrap();
    cluster.nodes()[0].process().kill().unwrap();
    for caller in &callers {
        let finished = soon!("a completion", caller.complete(&store, "x").await.ok());
        assert_ne!(finished, FinishOutcome::Lost);
    }
    strangers_are_not_believed(&url).await;
}

/// The application's own client for a Cluster brings its own certificates.
#[tokio::test(flavor = "multi_thread")]
async fn an_applications_own_cluster_client_works_over_tls() {
    let authority = Authority::generate().unwrap();
    let cluster = RedisCluster::start_of(RedisServer::options().tls(&authority)).unwrap();
    let nodes = cluster.nodes().iter().map(|node| node.tls_url().unwrap());
    let client = ClusterClientBuilder::new(nodes).certs(certificates(authority.pem()));
    let connection = client.build().unwrap().get_async_connection().await.unwrap();
    let builder = RedisStore::builder().namespace(unique_namespace());
    works(&builder.with_cluster_connection(connection)).await;
}

/// Sentinels are asked over TLS, and the primary that they name, which is another one after a failover, is
/// spoken to in the same way.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_the_primaries_that_they_name_are_reached_over_tls() {
    let authority = Authority::generate().unwrap();
    let servers = RedisSentinel::start_of(&RedisServer::options().tls(&authority)).unwrap();
    let url = servers.tls_url().unwrap();
    let builder = believing(&authority).timeout(Duration::from_millis(700));
    let store = builder.connect(&url).await.unwrap();
    works(&store).await;
    everything_else_works(&store).await;
    let before = Caller::new(&key("before"));
    before.acquire(&store).await;
    assert_eq!(before.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
    let size = servers.primary().ask(&["DBSIZE"]).unwrap();
    servers.replica().wait_for(&["DBSIZE"], |found| found == size).unwrap();
    servers.primary().process().kill().unwrap();
    let after = Caller::new(&key("after"));
    let claimed = soon!("a promoted replica", after.claim(&store).await.ok());
    assert!(matches!(claimed, idempotency_core::ClaimOutcome::Acquired(_)), "{claimed:?}");
    assert_eq!(replayed(&store, &before.key).await, "answer");
    strangers_are_not_believed(&url).await;
}
