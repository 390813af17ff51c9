//! Bytes and durations at their limits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use idempotency_core::{
    ClaimOutcome, Effect, ErrorKind, FinishOutcome, IdempotencyStore, ManualClock, RenewOutcome,
};
use idempotency_memory::MemoryStore;

use crate::support::{Caller, LEASE, millis, store};

/// Kind of fault: bytes that come back changed (H-38), and an empty answer taken for none (H-21).
#[tokio::test]
async fn any_bytes_come_back_as_they_were() {
    let (store, _clock) = store();
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let bodies: [&[u8]; 7] = [&all, b"", b"\0", b"\xff\xfe", b"x", b"caf\xe9", b"null"];
    for (number, body) in bodies.iter().enumerate() {
        let owner = Caller::of(format!("k{number}"));
        owner.acquires(&store, 1).await;
        let done = owner.complete(&store, 1, Bytes::copy_from_slice(body)).await;
        assert_eq!(done, FinishOutcome::Done);
        owner.another().replays(&store, body).await;
    }
}

#[tokio::test]
async fn what_is_too_large_is_refused_without_effect() {
    let store = MemoryStore::builder().max_response_bytes(100).max_checkpoint_bytes(10).build();
    let owner = Caller::of("k");
    owner.acquires(&store, 1).await;
    let before = store.lookup(&owner.key).await.unwrap();
    let errors = [
        owner.try_complete(&store, 1, vec![0; 101]).await.unwrap_err(),
        owner.try_renew(&store, 1, 1, Some(&[0; 11])).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::TooLarge, Effect::None));
    }
    assert_eq!(store.lookup(&owner.key).await.unwrap(), before);
    let renewed = owner.try_renew(&store, 1, 1, Some(&[0; 10])).await.unwrap();
    assert!(matches!(renewed, RenewOutcome::Held { .. }));
    assert_eq!(owner.complete(&store, 1, vec![0; 100]).await, FinishOutcome::Done);
}

struct Buffer(Vec<u8>, Arc<AtomicBool>);

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
    }
}

/// Kind of fault: memory growth. A few bytes out of a large buffer do not keep the buffer.
#[tokio::test]
async fn a_stored_slice_does_not_keep_the_buffer_it_came_from() {
    let (store, _clock) = store();
    let owner = Caller::of("k");
    owner.acquires(&store, 1).await;
    let freed = Arc::new(AtomicBool::new(false));
    let buffer = Bytes::from_owner(Buffer(vec![7; 1 << 20], Arc::clone(&freed)));
    let _ = owner.complete(&store, 1, buffer.slice(..5)).await;
    drop(buffer);
    assert!(freed.load(Ordering::Relaxed));
    owner.another().replays(&store, &[7; 5]).await;
}

/// Kind of fault: durations that a store rounds to nothing or refuses at run time (H-47). The shortest
/// and the longest work, and every record has an end.
#[tokio::test]
async fn the_shortest_and_the_longest_durations_work() {
    let shortest = Duration::from_micros(400);
    let (longest_lease, ten_years) = (Duration::from_hours(24), Duration::from_hours(24 * 3_653));
    for (lease, retention) in [
        (shortest, shortest),
        (shortest, ten_years),
        (longest_lease, shortest),
        (longest_lease, ten_years),
        (millis(999), millis(1_500)),
    ] {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let owner = Caller { lease, retention, ..Caller::of("k") };
        let ClaimOutcome::Acquired(acquired) = owner.claim(&store).await else {
            panic!("{lease:?} was not claimed")
        };
        assert!(acquired.lease_remaining >= lease);
        // the remaining time may be over when the answer comes
        clock.advance(lease + LEASE.min(retention));
        let done = owner.complete(&store, 1, "done").await;
        assert!(matches!(done, FinishOutcome::Done | FinishOutcome::Restored));
        clock.advance(retention);
        owner.another().replays(&store, b"done").await;
        clock.advance(millis(2));
        assert_eq!(store.lookup(&owner.key).await.unwrap(), None);
    }
}
