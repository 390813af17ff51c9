//! Lists: page by page, while the server changes.

use std::{collections::BTreeSet, time::Duration};

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ErrorKind, Lease, ListQuery, ListState, Namespace, Release, Scope, StoreAdmin,
};
use idempotency_redis::RedisStore;
use test_servers::redis::RedisServer;

use crate::support::{Caller, cluster, connect, fresh, key, server};

/// The keys of all pages. A server that sorts its keys anew in between may show one twice.
pub(crate) async fn list(store: &RedisStore, query: &ListQuery) -> Vec<String> {
    let (mut found, mut page) = (Vec::new(), None);
    loop {
        let query = ListQuery { page, ..query.clone() };
        let listed = store.list(query.clone()).await.unwrap();
        assert!(listed.records.len() <= query.limit);
        found.extend(listed.records.into_iter().map(|record| record.key.unwrap().key().to_owned()));
        page = listed.next;
        if page.is_none() {
            found.sort();
            found.dedup();
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

/// A key that stays for longer than any list takes.
async fn lasting(store: &RedisStore, name: &str) {
    let lease = Lease::new(Duration::from_hours(1)).unwrap();
    Caller { lease, ..Caller::new(&key(name)) }.acquire(store).await;
}

/// The sizes of the server's hash tables of keys: two while it moves them from one to the other.
fn table_sizes(stats: &str) -> Vec<u64> {
    let of_keys = stats.split("[Expires").next().unwrap();
    let sizes = of_keys.lines().filter_map(|line| line.trim().strip_prefix("table size: "));
    sizes.map(|size| size.parse().unwrap()).collect()
}

/// Twenty thousand other keys come or go, and the server has moved all of its keys to a table that fits.
fn fill_or_empty(server: &RedisServer, fill: bool) {
    const FILL: &str = "for n = 1, 20000 do redis.call('SET', 'filler-' .. n, '') end return 'OK'";
    const EMPTY: &str = "for n = 1, 20000 do redis.call('DEL', 'filler-' .. n) end return 'OK'";
    server.tell(&["EVAL", if fill { FILL } else { EMPTY }, "0"]).unwrap();
    let fits = |stats: &str| match table_sizes(stats)[..] {
        [size] => (size >= 16_384) == fill && (size <= 1_024) != fill,
        _ => false,
    };
    server.wait_for(&["DEBUG", "HTSTATS", "0"], fits).unwrap();
}

/// More records than a page holds, and pages that end inside of what a server keeps together.
pub(crate) async fn lists_everything(url: &str) {
    let store = fresh(url).await;
    let names: Vec<_> = (0..300).map(|number| format!("{number:03}")).collect();
    for name in &names {
        lasting(&store, name).await;
    }
    for limit in [1, 40, 1_000] {
        assert_eq!(list(&store, &ListQuery { limit, ..ListQuery::default() }).await, names);
    }
}

/// Kind of fault: a list that skips what is there. Between two pages keys come and go, so that the server moves
/// all of them to a larger table and back to a smaller one: one scan finds a few records, and the next one from
/// the same cursor all of them. What was on no page yet was taken for shown when its name came before that of
/// the last one shown: half of the records were missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_whole_while_the_server_grows_and_shrinks() {
    let options = RedisServer::options().set("enable-debug-command", "yes").set("hz", "100");
    let server = options.start().unwrap();
    let store = fresh(&server.url()).await;
    let names: BTreeSet<_> = (0..150).map(|number| format!("{number:03}")).collect();
    for name in &names {
        lasting(&store, name).await;
    }
    for limit in [1, 3, 50] {
        let (mut found, mut page, mut pages) = (BTreeSet::new(), None, 0);
        fill_or_empty(&server, true);
        loop {
            let query = ListQuery { limit, page, ..ListQuery::default() };
            let listed = store.list(query).await.unwrap();
            assert!(listed.records.len() <= limit, "{} of {limit}", listed.records.len());
            found.extend(
                listed.records.into_iter().map(|record| record.key.unwrap().key().to_owned()),
            );
            page = listed.next;
            if page.is_none() {
                break;
            }
            pages += 1;
            // a list that has begun in a large table goes on in a small one, and once more
            match pages % 60 {
                0 => fill_or_empty(&server, true),
                2 => fill_or_empty(&server, false),
                _ => {}
            }
        }
        assert!(pages > 3, "{pages}");
        assert_eq!(found, names, "with {limit} a page");
    }
}

/// The cursor of a server that has gone means nothing to the one that has its address now.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_a_restart_cuts_in_two_is_refused() {
    let options = RedisServer::options().set("appendonly", "yes").set("appendfsync", "always");
    let server = options.start().unwrap();
    let store = fresh(&server.url()).await;
    for number in 0..2_000 {
        lasting(&store, &number.to_string()).await;
    }
    let first = store.list(ListQuery::default()).await.unwrap();
    assert!(!first.records.is_empty());
    let rest = ListQuery { page: first.next, ..ListQuery::default() };
    assert!(store.list(rest.clone()).await.is_ok());
    server.kill_and_restart().unwrap();
    let error = crate::support::soon!(
        "the server again",
        store.list(rest.clone()).await.err().filter(|error| !error.is_transient())
    );
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("begin again"), "{error}");
    assert_eq!(list(&store, &ListQuery::default()).await.len(), 2_000);
}
