//! Expired records leave by themselves.

use idempotency_core::{IdempotencyStore, Release};
use idempotency_memory::MemoryStore;
use tokio::runtime;

use crate::support::{Caller, LEASE, RETENTION, at_once, eventually, millis, store};

/// Kind of fault: memory growth (H-62). What nobody touches again leaves all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_thousand_short_records_leave_untouched() {
    let store = MemoryStore::new();
    let owner = Caller { lease: millis(1), retention: millis(1), ..Caller::of("k") };
    for number in 0..200_000 {
        let owner = Caller { key: crate::support::key(format!("k{number}")), ..owner.clone() };
        let _ = owner.claim(&store).await;
    }
    eventually("all are gone", || store.is_empty()).await;
}

#[tokio::test]
async fn a_record_leaves_the_millisecond_after_its_last_and_not_before() {
    let (store, clock) = store();
    let (early, late) = (Caller::of("early"), Caller::of("late"));
    for caller in [&early, &late] {
        caller.acquires(&store, 1).await;
    }
    let _ = early.complete(&store, 1, "early").await;
    clock.advance(millis(100));
    let _ = late.complete(&store, 1, "late").await;
    clock.advance(RETENTION.saturating_sub(millis(100)));
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert_eq!(store.len(), 2);
    }
    clock.advance(millis(1));
    eventually("the early one is gone", || store.len() == 1).await;
    late.another().replays(&store, b"late").await;
    clock.advance(millis(100));
    eventually("the late one is gone", || store.is_empty()).await;
}

/// The end may also come earlier than it was expected at the claim.
#[tokio::test]
async fn a_record_whose_end_moved_forward_leaves_at_its_new_end() {
    let (store, clock) = store();
    let short = Caller::of("short");
    short.acquires(&store, 1).await;
    let short = Caller { retention: millis(50), ..short };
    let _ = short.complete(&store, 1, "short").await;
    let unused = Caller::of("unused");
    unused.acquires(&store, 1).await;
    let _ = unused.release(&store, 1, Release::NotStarted).await;
    clock.advance(millis(51));
    eventually("the short one is gone", || store.len() == 1).await;
    clock.advance(LEASE.saturating_sub(millis(50)));
    eventually("the spent token is forgotten", || store.is_empty()).await;
}

#[tokio::test]
async fn renewed_records_stay_for_as_long_as_they_are_renewed() {
    let (store, clock) = store();
    let owner = Caller { retention: millis(5), lease: millis(10), ..Caller::of("k") };
    owner.acquires(&store, 1).await;
    for sequence in 1..50 {
        clock.advance(millis(8));
        tokio::task::yield_now().await;
        let _ = owner.try_renew(&store, 1, sequence, None).await.unwrap();
        assert!(store.lookup(&owner.key).await.unwrap().is_some(), "{sequence}");
    }
    clock.advance(millis(16));
    eventually("gone", || store.is_empty()).await;
}

/// Kind of fault: a task that outlives what it works for.
#[test]
fn the_background_task_ends_with_the_last_clone() {
    let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let alive = || runtime.metrics().num_alive_tasks();
    let (store, clock) = store();
    assert_eq!(alive(), 0, "nothing runs before the first claim");
    runtime.block_on(async {
        Caller::of("k").acquires(&store, 1).await;
        assert_eq!(alive(), 1);
        let clone = store.clone();
        drop(store);
        Caller::of("other").acquires(&clone, 1).await;
        // on this one thread it is asleep after this, until the end of a record a long time away
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(alive(), 1);
        drop(clone);
        eventually("the task has ended", || alive() == 0).await;
    });
    drop(clock);
}

/// Kind of fault: protection not engaged after a restart of something around it. The task dies with its
/// runtime, and the next claim starts another.
#[test]
fn the_background_task_comes_back_after_its_runtime_ended() {
    let (store, clock) = store();
    for round in 0..3 {
        let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            Caller::of(format!("k{round}")).acquires(&store, 1).await;
            tokio::task::yield_now().await;
            assert_eq!(runtime.metrics().num_alive_tasks(), 1, "round {round}");
        });
        drop(runtime);
        assert_eq!(store.len(), round + 1, "nobody was there to sweep");
    }
    clock.advance(LEASE + RETENTION + millis(1));
    let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        Caller::of("last").acquires(&store, 1).await;
        eventually("only the last is left", || store.len() == 1).await;
    });
}

/// Kind of fault: memory growth (H-62). The runtime of the background task still exists, but nobody
/// drives it any more.
#[test]
fn records_leave_though_the_tasks_runtime_stands_still() {
    let (_, clock) = store();
    // so small that it has 16 shards, and operations come to each of them
    let store = MemoryStore::builder().clock(clock.clone()).capacity(10_000).build();
    let runtime = || runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (idle, driven) = (runtime(), runtime());
    idle.block_on(async {
        for number in 0..100 {
            Caller::of(format!("old{number}")).acquires(&store, 1).await;
        }
        tokio::task::yield_now().await;
    });
    assert_eq!(idle.metrics().num_alive_tasks(), 1, "the task is there");
    clock.advance(LEASE + RETENTION + millis(2_000));
    driven.block_on(async {
        for number in 0..500 {
            Caller::of(format!("new{number}")).acquires(&store, 1).await;
        }
    });
    assert_eq!(store.len(), 500);
}

#[test]
fn without_a_runtime_new_records_let_expired_ones_leave() {
    let (store, clock) = store();
    for number in 0..100 {
        at_once(Caller::of(format!("old{number}")).acquires(&store, 1));
    }
    clock.advance(LEASE + RETENTION + millis(1));
    for number in 0..60 {
        at_once(Caller::of(format!("new{number}")).acquires(&store, 1));
    }
    assert_eq!(store.len(), 60);
}
