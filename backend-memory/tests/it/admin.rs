//! The operator's verbs and sweeping.

use std::{collections::HashSet, num::NonZeroU32, time::Duration};

use idempotency_core::{
    ClaimOutcome, ErrorKind, IdempotencyKey, IdempotencyStore, ListQuery, ListState, Release,
    RemoveOutcome, Retention, Scope, SeenClaim, SettleOutcome, Settlement, StoreAdmin, Sweep,
};

use crate::support::{Caller, LEASE, RETENTION, at_once, millis, store};

async fn list_all(store: &dyn StoreAdmin, mut query: ListQuery) -> Vec<String> {
    let mut keys = Vec::new();
    loop {
        let page = store.list(query.clone()).await.unwrap();
        assert!(page.records.len() <= query.limit);
        for listed in page.records {
            let key = listed.key.unwrap();
            assert_eq!(listed.digest, Some(key.digest()));
            keys.push(key.key().to_owned());
        }
        query.page = page.next;
        if query.page.is_none() {
            return keys;
        }
    }
}

#[tokio::test]
async fn paging_shows_every_record_once() {
    let (store, _clock) = store();
    for number in 0..1_000 {
        Caller::of(format!("k{number}")).acquires(&store, 1).await;
    }
    for limit in [1, 7, 100, 1_000, 5_000] {
        let keys = list_all(&store, ListQuery { limit, ..ListQuery::default() }).await;
        let distinct: HashSet<_> = keys.iter().collect();
        assert_eq!((keys.len(), distinct.len()), (1_000, 1_000), "{limit}");
    }
}

#[tokio::test]
async fn a_query_selects_by_state_scope_and_age() {
    let (store, clock) = store();
    let callers: Vec<_> = ["done", "failed", "unknown", "dead"].map(Caller::of).into();
    for caller in &callers {
        caller.acquires(&store, 1).await;
    }
    let _ = callers[0].complete(&store, 1, "x").await;
    let _ = callers[1].release(&store, 1, Release::Failed).await;
    let _ = callers[2].release(&store, 1, Release::Unknown).await;
    clock.advance(LEASE + millis(1));
    Caller::of("live").acquires(&store, 1).await;
    let gone = Caller::of("gone");
    gone.acquires(&store, 1).await;
    let _ = gone.release(&store, 1, Release::NotStarted).await;
    let foreign =
        Caller { key: IdempotencyKey::new("other", "foreign").unwrap(), ..Caller::of("x") };
    foreign.acquires(&store, 1).await;

    let by_state = |state| ListQuery { state: Some(state), ..ListQuery::default() };
    let scope =
        |name: &str| ListQuery { scope: Some(Scope::new(name).unwrap()), ..ListQuery::default() };
    let older = ListQuery { older_than: Some(LEASE), ..ListQuery::default() };
    let cases = [
        (by_state(ListState::Completed), vec!["done"]),
        (by_state(ListState::Failed), vec!["failed"]),
        (by_state(ListState::Abandoned), vec!["dead", "unknown"]),
        (by_state(ListState::InProgress), vec!["foreign", "live"]),
        (scope("other"), vec!["foreign"]),
        (scope("nobody"), vec![]),
        (older, vec!["dead", "done", "failed", "unknown"]),
    ];
    for (query, expected) in cases {
        let mut keys = list_all(&store, query.clone()).await;
        keys.sort();
        assert_eq!(keys, expected, "{query:?}");
    }
}

#[tokio::test]
async fn a_page_of_another_store_is_refused() {
    let (mine, _clock) = store();
    let (other, _clock) = store();
    for number in 0..2 {
        Caller::of(format!("k{number}")).acquires(&other, 1).await;
    }
    let query = ListQuery { limit: 1, ..ListQuery::default() };
    let foreign = other.list(query.clone()).await.unwrap().next;
    assert!(foreign.is_some());
    for page in [foreign, Some(String::new()), Some("zz".to_owned()), Some("é".repeat(16))] {
        let error = mine.list(ListQuery { page, ..query.clone() }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn an_abandoned_attempt_is_settled_once_and_only_by_who_saw_it() {
    let (store, clock) = store();
    let dead = Caller::of("k");
    dead.acquires(&store, 1).await;
    let record = store.lookup(&dead.key).await.unwrap().unwrap();
    let seen = SeenClaim::from(&record);
    let completed = || Settlement::Completed {
        response: "settled".into(),
        retention: Retention::new(RETENTION).unwrap(),
    };
    let settle = |seen| store.settle(&dead.key, seen, completed());
    assert_eq!(settle(seen).await.unwrap(), SettleOutcome::StillRunning);
    clock.advance(LEASE + millis(1));
    let stranger = SeenClaim { token: Caller::of("x").token, ..seen };
    assert_eq!(settle(stranger).await.unwrap(), SettleOutcome::Changed);
    assert_eq!(settle(seen).await.unwrap(), SettleOutcome::Settled);
    assert_eq!(settle(seen).await.unwrap(), SettleOutcome::Changed);
    dead.another().replays(&store, b"settled").await;
    assert_eq!(store.remove(&dead.key, stranger).await.unwrap(), RemoveOutcome::Changed);
    assert_eq!(store.remove(&dead.key, seen).await.unwrap(), RemoveOutcome::Removed);
    assert_eq!(store.remove(&dead.key, seen).await.unwrap(), RemoveOutcome::Changed);
    dead.another().acquires(&store, 1).await;
}

/// Without a runtime nothing sweeps by itself, so what a sweep does can be counted.
#[test]
fn a_sweep_removes_a_batch_of_expired_records_and_counts_the_abandoned() {
    let (store, clock) = store();
    for number in 0..30 {
        let caller = Caller::of(format!("k{number}"));
        at_once(caller.acquires(&store, 1));
        if number % 3 == 0 {
            let _ = at_once(caller.complete(&store, 1, "done"));
        }
    }
    let sweep = |batch| at_once(store.sweep(NonZeroU32::new(batch).unwrap())).unwrap();
    assert_eq!(sweep(100), idempotency_core::SweepReport::default());
    clock.advance(LEASE + RETENTION + Duration::from_hours(1));
    let (mut removed, mut abandoned) = (0, 0);
    for round in 1..=3 {
        let report = sweep(10);
        assert_eq!((report.removed, report.more), (10, round < 3), "round {round}");
        removed += report.removed;
        abandoned += report.abandoned;
    }
    assert_eq!((removed, abandoned, store.len()), (30, 20, 0));
}

#[tokio::test]
async fn a_connected_store_has_its_capabilities() {
    let (store, clock) = store();
    let connected = store.connected();
    let caller = Caller::of("k");
    assert!(matches!(caller.claim(&*connected.store()).await, ClaimOutcome::Acquired(_)));
    let admin = connected.admin().unwrap();
    assert_eq!(list_all(&*admin, ListQuery::default()).await, ["k"]);
    clock.advance(LEASE + RETENTION + millis(1));
    let _ = connected.sweep().unwrap().sweep(NonZeroU32::MAX).await.unwrap();
    assert!(store.is_empty());
    assert!(connected.watch().is_none() && connected.schema().is_none());
}
