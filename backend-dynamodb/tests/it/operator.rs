//! What operators do: list, settle, remove.

use std::{collections::HashSet, time::Duration};

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, ErrorKind, FinishOutcome, IdempotencyStore, ListQuery, ListState, ListedRecord,
    Release, ReleaseOutcome, RemoveOutcome, Scope, SeenClaim, SettleOutcome, Settlement,
    StoreAdmin,
};
use idempotency_dynamodb::DynamoDbStore;
use test_servers::dynamodb::{DynamoDbEmulator, DynamoDbProxy, Fault};

use crate::support::{Caller, builder, emulator, fresh, key, lease, replayed, until_abandoned};

async fn all(store: &DynamoDbStore, query: ListQuery) -> Vec<ListedRecord> {
    let mut records = Vec::new();
    let mut page = None;
    for _ in 0..1_000 {
        let listed = store.list(ListQuery { page, ..query.clone() }).await.unwrap();
        records.extend(listed.records);
        page = listed.next;
        if page.is_none() {
            return records;
        }
    }
    panic!("a list without end");
}

fn names(records: &[ListedRecord]) -> Vec<String> {
    let mut names: Vec<_> =
        records.iter().map(|listed| listed.key.as_ref().unwrap().key().to_owned()).collect();
    names.sort_unstable();
    names
}

/// A key in each state; `abandoned` twice.
async fn one_of_each(store: &DynamoDbStore) {
    for name in ["running", "completed", "failed", "unknown", "unused", "over"] {
        let millis = if name == "over" { 1 } else { 60_000 };
        let caller = Caller { lease: lease(millis), ..Caller::new(&key(name)) };
        caller.acquire(store).await;
        let release = match name {
            "completed" => {
                assert_eq!(caller.complete(store, "answer").await.unwrap(), FinishOutcome::Done);
                continue;
            }
            "failed" => Release::Failed,
            "unknown" => Release::Unknown,
            "unused" => Release::NotStarted,
            _ => continue,
        };
        assert_eq!(caller.release(store, release).await.unwrap(), ReleaseOutcome::Released);
    }
    until_abandoned(store, &key("over")).await;
}

async fn lists_by_state(store: &DynamoDbStore) {
    one_of_each(store).await;
    let cases: [(Option<ListState>, &[&str]); 5] = [
        (None, &["completed", "failed", "over", "running", "unknown"]),
        (Some(ListState::InProgress), &["running"]),
        (Some(ListState::Abandoned), &["over", "unknown"]),
        (Some(ListState::Failed), &["failed"]),
        (Some(ListState::Completed), &["completed"]),
    ];
    for (state, expected) in cases {
        for limit in [1, 100] {
            let listed = all(store, ListQuery { state, limit, ..ListQuery::default() }).await;
            assert_eq!(names(&listed), expected, "{state:?} by {limit}");
            assert!(listed.iter().all(|listed| state.is_none_or(|state| listed.state == state)));
        }
        let old = Some(Duration::from_hours(1));
        let listed = all(store, ListQuery { state, older_than: old, ..ListQuery::default() }).await;
        assert!(listed.is_empty(), "{listed:?}");
        let of_other = Some(Scope::new("another").unwrap());
        let listed = all(store, ListQuery { state, scope: of_other, ..ListQuery::default() }).await;
        assert!(listed.is_empty(), "{listed:?}");
        let of_shop = Some(Scope::new("shop").unwrap());
        let listed = all(store, ListQuery { state, scope: of_shop, ..ListQuery::default() }).await;
        assert_eq!(names(&listed), expected);
    }
    let page = Some("nonsense".to_owned());
    let error = store.list(ListQuery { page, ..ListQuery::default() }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_listed_by_scan() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let store = builder(&unique_namespace()).endpoint(emulator.endpoint()).create(true);
    lists_by_state(&store.connect().await.unwrap()).await;
}

/// A store on a table that has an index.
async fn indexed(emulator: &DynamoDbEmulator, endpoint: String) -> DynamoDbStore {
    let builder = builder(&unique_namespace()).index("unsettled").unwrap();
    let store = builder.clone().endpoint(emulator.endpoint()).create(true);
    store.connect().await.unwrap();
    builder.endpoint(endpoint).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_without_an_outcome_are_listed_by_the_index_and_nothing_else_is_in_it() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let proxy = DynamoDbProxy::start(emulator.address()).await.unwrap();
    let store = indexed(&emulator, format!("http://{}", proxy.address())).await;
    lists_by_state(&store).await;
    proxy.take_seen();
    let query = ListQuery { state: Some(ListState::Abandoned), ..ListQuery::default() };
    assert_eq!(all(&store, query).await.len(), 2);
    let operations: HashSet<_> = proxy.take_seen().into_iter().map(|seen| seen.operation).collect();
    assert_eq!(operations, HashSet::from(["Query".to_owned(), "GetItem".to_owned()]));
    // what has an outcome has left the index
    let index = store.client().scan().table_name(crate::support::TABLE).index_name("unsettled");
    assert_eq!(index.send().await.unwrap().count(), 4);
}

async fn seen(store: &DynamoDbStore, name: &str) -> SeenClaim {
    SeenClaim::from(&store.lookup(&key(name)).await.unwrap().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_attempt_is_settled_and_a_live_one_is_not() {
    let store = fresh().await;
    one_of_each(&store).await;
    let completed = || Settlement::Completed {
        response: "declared".into(),
        retention: idempotency_core::Retention::DEFAULT,
    };
    let settle = async |name: &str, settlement| {
        store.settle(&key(name), seen(&store, name).await, settlement).await.unwrap()
    };
    assert_eq!(settle("running", completed()).await, SettleOutcome::StillRunning);
    assert_eq!(settle("completed", Settlement::Failed).await, SettleOutcome::Changed);
    assert_eq!(settle("over", completed()).await, SettleOutcome::Settled);
    assert_eq!(replayed(&store, &key("over")).await, "declared");
    assert_eq!(settle("unknown", Settlement::Failed).await, SettleOutcome::Settled);
    let outcome = Caller::new(&key("unknown")).claim(&store).await.unwrap();
    let ClaimOutcome::Acquired(acquired) = outcome else { panic!("{outcome:?}") };
    assert_eq!(acquired.attempt.get(), 2);
    let gone = SeenClaim::from(&store.lookup(&key("over")).await.unwrap().unwrap());
    let nobody = store.settle(&key("nobody"), gone, Settlement::Failed).await.unwrap();
    assert_eq!(nobody, SettleOutcome::Changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_removed_when_it_is_the_one_that_was_seen() {
    let store = fresh().await;
    one_of_each(&store).await;
    let other = seen(&store, "running").await;
    for name in ["completed", "failed", "unknown", "over", "running"] {
        if name != "running" {
            let outcome = store.remove(&key(name), other).await.unwrap();
            assert_eq!(outcome, RemoveOutcome::Changed, "{name}");
        }
        let claim = seen(&store, name).await;
        assert_eq!(
            store.remove(&key(name), claim).await.unwrap(),
            RemoveOutcome::Removed,
            "{name}"
        );
        assert!(store.lookup(&key(name)).await.unwrap().is_none());
        assert_eq!(store.remove(&key(name), claim).await.unwrap(), RemoveOutcome::Changed);
    }
}

/// Kind of fault: own lost success looks like a conflict (H-50), with operators.
#[tokio::test(flavor = "multi_thread")]
async fn an_operators_lost_success_is_recognised() {
    let proxy = DynamoDbProxy::start(emulator().address()).await.unwrap();
    let builder = builder(&unique_namespace()).timeout(Duration::from_secs(8));
    let store = builder.endpoint(format!("http://{}", proxy.address())).connect().await.unwrap();
    one_of_each(&store).await;
    let claim = seen(&store, "over").await;
    proxy.set(Fault::Swallow("PutItem"));
    let settled = store.settle(&key("over"), claim, Settlement::Failed).await.unwrap();
    assert_eq!(settled, SettleOutcome::Settled);
    assert!(proxy.is_well());
    proxy.set(Fault::Swallow("PutItem"));
    let claim = seen(&store, "completed").await;
    assert_eq!(store.remove(&key("completed"), claim).await.unwrap(), RemoveOutcome::Removed);
    assert!(proxy.is_well());
}
