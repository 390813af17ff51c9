//! Watches, examinations, the application's own connections, other servers.

use std::time::Duration;

use idempotency_conformance::{Suite, unique_namespace};
use idempotency_core::{
    ClaimOutcome, Doctor, FinishOutcome, Release, RenewOutcome, Severity, Watch,
};
use idempotency_redis::{RedisStore, redis};
use test_servers::redis::{RedisCluster, RedisOptions, RedisProgram, RedisServer};

use crate::conformance::{Cluster, Single};
use crate::lists::lists_everything;
use crate::support::{
    Caller, cluster, connect, fresh, is_full, key, lease, raw, replayed, server, soon,
};

/// A watcher of another process is told when the attempt ends, on one server and in a Cluster; where
/// nobody waits, nothing is published.
#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_told_and_nothing_is_published_without_one() {
    for (url, asked) in [(server().url(), server()), (cluster().url(), &cluster().nodes()[0])] {
        let namespace = unique_namespace();
        let (owner, waiter) = (connect(&url, &namespace).await, connect(&url, &namespace).await);
        let (watched, other) = (Caller::new(&key("watched")), Caller::new(&key("other")));
        watched.acquire(&owner).await;
        other.acquire(&owner).await;
        let mut watching = waiter.watch(&watched.key).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(100), watching.changed()).await;
        assert!(early.is_err(), "told of a change that was none");
        let published = |server: &RedisServer| {
            let stats = server.ask(&["INFO", "commandstats"]).unwrap();
            let line = stats.lines().find(|line| line.starts_with("cmdstat_publish:"));
            line.map_or(0, |line| {
                let calls = line.split(['=', ',']).nth(1).unwrap();
                calls.parse::<u32>().unwrap()
            })
        };
        let _ = published(asked);
        assert_eq!(other.complete(&owner, "x").await.unwrap(), FinishOutcome::Done);
        assert!(matches!(watched.renew(&owner, 1).await.unwrap(), RenewOutcome::Held { .. }));
        assert_eq!(watched.complete(&owner, "x").await.unwrap(), FinishOutcome::Done);
        let told = tokio::time::timeout(Duration::from_secs(10), watching.changed()).await;
        told.expect("told in time").unwrap();
        // of what has ended already one is told at once
        let mut late = waiter.watch(&watched.key).await.unwrap();
        tokio::time::timeout(Duration::from_secs(10), late.changed()).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_published_where_nobody_waits() {
    let server = RedisServer::start().unwrap();
    let store = fresh(&server.url()).await;
    let caller = Caller::new(&key("alone"));
    caller.acquire(&store).await;
    assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
    let published = || server.ask(&["INFO", "commandstats"]).unwrap().contains("cmdstat_publish:");
    assert!(!published());
    let caller = Caller::new(&key("awaited"));
    caller.acquire(&store).await;
    let _watching = store.watch(&caller.key).await.unwrap();
    let _ = caller.release(&store, Release::Unknown).await.unwrap();
    assert!(published());
}

/// However many wait, for whatever keys: they are told on one connection, and when nobody waits any more it
/// ends.
#[tokio::test(flavor = "multi_thread")]
async fn all_waiters_of_a_store_are_told_on_one_connection() {
    let server = RedisServer::start().unwrap();
    let store = fresh(&server.url()).await;
    let subscribers = || server.ask(&["CLIENT", "LIST", "TYPE", "pubsub"]).unwrap().lines().count();
    let mut watching = Vec::new();
    for name in 0..10 {
        let caller = Caller::new(&key(name));
        caller.acquire(&store).await;
        for store in [&store, &store.clone()] {
            watching.push(store.watch(&caller.key).await.unwrap());
        }
    }
    assert_eq!(subscribers(), 1);
    drop(watching);
    soon!("no subscriber", (subscribers() == 0).then_some(()));
}

/// A watch whose connection breaks says so, so that its waiter polls; the next one is on a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_watch_is_an_error_and_the_next_one_works() {
    let server = RedisServer::start().unwrap();
    let store = fresh(&server.url()).await;
    let caller = Caller::new(&key("watched"));
    caller.acquire(&store).await;
    let mut watching = store.watch(&caller.key).await.unwrap();
    server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    let told = tokio::time::timeout(Duration::from_secs(10), watching.changed()).await;
    told.expect("told in time").unwrap_err();
    let mut again = soon!("a new watch", store.watch(&caller.key).await.ok());
    assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
    let told = tokio::time::timeout(Duration::from_secs(10), again.changed()).await;
    told.expect("told in time").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_what_would_break_the_contract() {
    async fn worst(options: RedisOptions) -> Vec<(Severity, String)> {
        let server = options.start().unwrap();
        let findings = fresh(&server.url()).await.examine().await.unwrap();
        assert!(findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));
        findings.into_iter().map(|finding| (finding.severity, finding.subject)).collect()
    }
    let bad =
        RedisServer::options().set("maxmemory", "50mb").set("maxmemory-policy", "allkeys-lru");
    let found = worst(bad).await;
    let has = |found: &[(Severity, String)], severity, words: &str| {
        found.iter().any(|(s, subject)| *s == severity && subject.contains(words))
    };
    assert!(has(&found, Severity::Hazard, "maxmemory-policy is allkeys-lru"), "{found:?}");
    assert!(has(&found, Severity::Hazard, "persistence is off"), "{found:?}");
    assert!(has(&found, Severity::Warning, "replicas connected: 0"), "{found:?}");
    let good = RedisServer::options().set("appendonly", "yes");
    let found = worst(good).await;
    for words in ["maxmemory-policy is noeviction", "append-only", "clock", "the server is Redis 7"]
    {
        assert!(has(&found, Severity::Fine, words), "{words}: {found:?}");
    }
    let of_cluster = fresh(&cluster().url()).await.examine().await.unwrap();
    assert!(of_cluster.iter().any(|finding| finding.subject.contains("127.0.0.1:")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_applications_own_connections_serve_as_well() {
    let client = redis::Client::open(server().url()).unwrap();
    let nodes = cluster().nodes().iter().map(RedisServer::url);
    let own_cluster = redis::cluster::ClusterClient::new(nodes).unwrap();
    let builder = || RedisStore::builder().namespace(unique_namespace());
    for store in [
        builder().with_connection_manager(client.get_connection_manager().await.unwrap()),
        builder().with_connection(raw(server()).await),
        builder().with_cluster_connection(own_cluster.get_async_connection().await.unwrap()),
    ] {
        let caller = Caller::new(&key("k"));
        caller.acquire(&store).await;
        assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
        assert_eq!(replayed(&store, &caller.key).await, "x");
        assert!(store.connected().watch().is_none() && store.connected().admin().is_some());
    }
}

/// Kind of fault: crash leaves record stuck (H-02). The owner is gone: duplicates are told to wait for
/// what is left of the lease, and then the work goes on as attempt 2.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_owner_blocks_its_key_for_its_lease_only() {
    let store = fresh(&server().url()).await;
    let dead = Caller { lease: lease(700), ..Caller::new(&key("stuck")) };
    dead.acquire(&store).await;
    let next = Caller::new(&dead.key);
    let ClaimOutcome::InProgress(running) = next.claim(&store).await.unwrap() else { panic!() };
    assert!(running.lease_remaining <= Duration::from_millis(700));
    let acquired = soon!(
        "a take-over",
        match next.claim(&store).await.unwrap() {
            ClaimOutcome::Acquired(acquired) => Some(acquired),
            _ => None,
        }
    );
    assert_eq!(acquired.attempt.get(), 2);
    assert!(acquired.first_attempt_ago >= Duration::from_millis(700));
}

/// The system's server always; in the full run those that `./test full` unpacks from `PyPI`, and a
/// Cluster of each, with the whole suite.
#[tokio::test(flavor = "multi_thread")]
async fn every_server_of_the_matrix_keeps_the_contract() {
    let programs: &[_] = if is_full() { &RedisProgram::ALL } else { &[RedisProgram::Default] };
    for program in programs {
        // the harness keeps its server for as long as the tests run
        let server = RedisServer::options().program(*program).start().unwrap();
        let server: &'static RedisServer = Box::leak(Box::new(server));
        let store = fresh(&server.url()).await;
        let first = Caller::new(&key("k"));
        // the second is recognised by the script, where there is one
        first.acquire(&store).await;
        first.acquire(&store).await;
        crate::model::programs_on(server, 100);
        lists_everything(&server.url()).await;
        if is_full() {
            is_green(Suite::new(Single(server))).await;
            let cluster = RedisCluster::start_of(RedisServer::options().program(*program)).unwrap();
            lists_everything(&cluster.url()).await;
            is_green(Suite::new(Cluster(Box::leak(Box::new(cluster))))).await;
        }
    }
}

async fn is_green(suite: Suite) {
    let report = suite.run().await;
    assert!(report.is_green(), "{report}");
}
