//! The bound, and what gives way to it.

use std::sync::Arc;

use idempotency_core::{
    ClaimOutcome, Effect, ErrorKind, FinishOutcome, IdempotencyStore, ManualClock, Release,
    ReleaseOutcome,
};
use idempotency_memory::MemoryStore;

use crate::support::{Caller, LEASE, RETENTION, at_once, millis};

fn full_store(capacity: usize) -> (MemoryStore, ManualClock, Vec<Caller>) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().capacity(capacity).clock(clock.clone()).build();
    let callers: Vec<_> = (0..capacity).map(|n| Caller::of(format!("k{n}"))).collect();
    for caller in &callers {
        at_once(caller.acquires(&store, 1));
    }
    (store, clock, callers)
}

/// Kind of fault: a key evicted to make room, so that its retry runs again. A full store refuses the
/// new key and keeps all old ones.
#[tokio::test]
async fn a_full_store_refuses_new_keys_and_keeps_the_old_ones() {
    let (store, _clock, callers) = full_store(100);
    let newcomer = Caller::of("new");
    for _ in 0..3 {
        let error = newcomer.try_claim(&store).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Full, Effect::None));
        let text = error.to_string();
        assert!(text.contains("100 records") && text.contains("raise"), "{text}");
    }
    assert_eq!(store.len(), 100);
    for caller in &callers {
        assert_eq!(caller.complete(&store, 1, "kept").await, FinishOutcome::Done);
        caller.another().replays(&store, b"kept").await;
    }
}

/// A completion whose record is gone needs room as well: it is refused, nobody is evicted for it.
#[tokio::test]
async fn a_full_store_refuses_to_restore() {
    let (store, _clock, _callers) = full_store(10);
    let lost = Caller::of("lost");
    let error = lost.try_complete(&store, 1, "late").await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Full, Effect::None));
    assert_eq!(lost.release(&store, 1, Release::Failed).await, ReleaseOutcome::Released);
    assert_eq!(store.len(), 10);
}

#[tokio::test]
async fn expired_records_give_way_to_new_ones() {
    let (store, clock, callers) = full_store(100);
    let _ = callers[0].complete(&store, 1, "kept").await;
    for caller in &callers[1..] {
        let _ = caller.complete(&store, 1, "short").await;
    }
    clock.advance(RETENTION);
    let kept = callers[0].another();
    // a new retention for the one, the end for all others
    let error = Caller::of("new").try_claim(&store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    kept.replays(&store, b"kept").await;
    clock.advance(millis(1));
    for number in 0..100 {
        Caller::of(format!("new{number}")).acquires(&store, 1).await;
    }
    assert_eq!(store.len(), 100);
}

/// A record that is past its retention is replaced where it is: that needs no room.
#[tokio::test]
async fn an_expired_key_can_be_claimed_in_a_full_store() {
    let (store, clock, callers) = full_store(100);
    clock.advance(LEASE + RETENTION + millis(1));
    for caller in &callers {
        caller.another().acquires(&store, 1).await;
    }
    assert_eq!(store.len(), 100);
}

#[tokio::test]
async fn a_store_without_room_refuses_everything_new() {
    let store = MemoryStore::builder().capacity(0).build();
    let error = Caller::of("k").try_claim(&store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
}

/// Kind of fault: memory growth under a flood of keys (H-62): the bound holds among simultaneous
/// claims, to the record.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_claims_never_hold_more_than_the_capacity() {
    const CAPACITY: usize = 1_000;
    let store = Arc::new(MemoryStore::builder().capacity(CAPACITY).build());
    let claims = (0..8).map(|task| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut acquired = 0;
            for number in 0..500 {
                match Caller::of(format!("{task}/{number}")).try_claim(&*store).await {
                    Ok(ClaimOutcome::Acquired(_)) => acquired += 1,
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Full),
                }
            }
            acquired
        })
    });
    let mut acquired = 0;
    for claim in claims.collect::<Vec<_>>() {
        acquired += claim.await.unwrap();
    }
    assert_eq!((acquired, store.len()), (CAPACITY, CAPACITY));
    assert!(store.lookup(&Caller::of("0/0").key).await.unwrap().is_some());
}
