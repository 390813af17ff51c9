//! Lists, watches, examinations, the application's own connections, other servers.

use std::time::Duration;

use idempotency_conformance::{Suite, unique_namespace};
use idempotency_core::{
    ClaimOutcome, Doctor, Effect, ErrorKind, FinishOutcome, Lease, ListQuery, ListState, Namespace,
    Release, RenewOutcome, Scope, Severity, StoreAdmin, Watch,
};
use idempotency_redis::{RedisStore, redis};
use test_servers::redis::{RedisCluster, RedisOptions, RedisProgram, RedisServer};

use crate::conformance::{Cluster, Single};
use crate::support::{
    Caller, cluster, connect, fresh, is_full, key, lease, raw, replayed, server, soon,
};

async fn list(store: &RedisStore, query: &ListQuery) -> Vec<String> {
    let (mut found, mut page) = (Vec::new(), None);
    loop {
        let query = ListQuery { page, ..query.clone() };
        let listed = store.list(query.clone()).await.unwrap();
        assert!(listed.records.len() <= query.limit);
        found.extend(listed.records.into_iter().map(|record| record.key.unwrap().key().to_owned()));
        page = listed.next;
        if page.is_none() {
            found.sort();
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_records_of_a_namespace_are_listed_page_by_page() {
    for url in [server().url(), cluster().url()] {
        let store = fresh(&url).await;
        for number in 0..30 {
            // longer than it takes to list a server that many tests share
            let lease = Lease::new(Duration::from_hours(1)).unwrap();
            let caller = Caller { lease, ..Caller::new(&key(format!("{number:02}"))) };
            caller.acquire(&store).await;
            match number % 3 {
                0 => drop(caller.complete(&store, "x").await.unwrap()),
                1 => drop(caller.release(&store, Release::Failed).await.unwrap()),
                _ => {}
            }
        }
        let all = ListQuery { limit: 4, ..ListQuery::default() };
        let numbers = |of: &dyn Fn(u32) -> bool| {
            (0..30).filter(|n| of(*n)).map(|n| format!("{n:02}")).collect::<Vec<_>>()
        };
        assert_eq!(list(&store, &all).await, numbers(&|_| true));
        for (state, remainder) in
            [(ListState::Completed, 0), (ListState::Failed, 1), (ListState::InProgress, 2)]
        {
            let query = ListQuery { state: Some(state), ..all.clone() };
            assert_eq!(list(&store, &query).await, numbers(&|n| n % 3 == remainder));
        }
        let of = |scope| ListQuery { scope: Some(Scope::new(scope).unwrap()), ..all.clone() };
        assert_eq!(list(&store, &of("shop")).await.len(), 30);
        assert!(list(&store, &of("sho")).await.is_empty());
        let old = ListQuery { older_than: Some(Duration::from_hours(1)), ..all.clone() };
        assert!(list(&store, &old).await.is_empty());
        let wrong = ListQuery { page: Some("not one".to_owned()), ..all };
        assert!(store.list(wrong).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_with_a_secret_lists_records_without_their_keys() {
    let namespace = Namespace::new(unique_namespace().name()).unwrap().with_secret("s3cret");
    let store = connect(&server().url(), &namespace).await;
    Caller::new(&key("hidden")).acquire(&store).await;
    let page = store.list(ListQuery { limit: 1_000, ..ListQuery::default() });
    let records = page.await.unwrap().records;
    assert!(records.iter().all(|record| record.key.is_none() && record.digest.is_none()));
    let scope = Some(Scope::new("shop").unwrap());
    let error = store.list(ListQuery { scope, ..ListQuery::default() }).await.unwrap_err();
    assert!(error.to_string().contains("secret"), "{error}");
}

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

/// What docs/backends.md lists is enough; a wrong password, and a user who may do less, are `Denied`.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_documented_rights_can_do_everything() {
    const RIGHTS: &str = "+evalsha +eval +set +get +pttl +pexpiretime +time +setrange +publish \
                          +subscribe +unsubscribe +scan +info +config|get";
    let server = RedisServer::start().unwrap();
    let mut user = vec!["ACL", "SETUSER", "app", "on", ">secret", "~idempotency/*"];
    user.push("&idempotency:*");
    user.extend(RIGHTS.split_whitespace());
    server.tell(&user).unwrap();
    let url = |password| format!("redis://app:{password}@{}", server.address());
    let store = RedisStore::connect(&url("secret")).await.unwrap();
    let caller = Caller { lease: lease(20), ..Caller::new(&key("k")) };
    caller.acquire(&store).await;
    let mut watching = store.watch(&caller.key).await.unwrap();
    assert!(matches!(caller.renew(&store, 1).await.unwrap(), RenewOutcome::Held { .. }));
    assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
    watching.changed().await.unwrap();
    assert_eq!(replayed(&store, &caller.key).await, "x");
    assert_eq!(list(&store, &ListQuery::default()).await, ["k"]);
    assert_eq!(store.examine().await.unwrap().len(), 5);

    let wrong = RedisStore::connect(&url("guess")).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Denied, "{wrong}");
    server.tell(&["ACL", "SETUSER", "app", "-set"]).unwrap();
    let error = Caller::new(&key("other")).claim(&store).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::None), "{error}");
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
        if is_full() {
            is_green(Suite::new(Single(server))).await;
            let cluster = RedisCluster::start_of(*program).unwrap();
            is_green(Suite::new(Cluster(Box::leak(Box::new(cluster))))).await;
        }
    }
}

async fn is_green(suite: Suite) {
    let report = suite.run().await;
    assert!(report.is_green(), "{report}");
}
