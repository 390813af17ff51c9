//! Bytes that are allocated, so in a process of its own and in one test: anything that ran beside it
//! would be counted.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]

use std::{alloc::System, num::NonZeroU32, time::Duration};

use cap::Cap;
use idempotency_core::{
    AttemptNumber, ClaimRequest, ClaimToken, CompleteRequest, Fingerprint, IdempotencyKey,
    IdempotencyStore, Lease, ManualClock, Release, ReleaseRequest, Retention, Sweep, Takeover,
};
use idempotency_memory::MemoryStore;

#[global_allocator]
static ALLOCATED: Cap<System> = Cap::new(System, usize::MAX);

const MEGABYTE: usize = 1_000_000;

/// Kind of fault: memory growth, something kept for each key ever seen (H-62). After the retention the
/// heap is where it was, however many keys there were, and a key costs the same.
#[test]
fn nothing_of_a_key_stays_behind() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let few = bytes_per_record(50_000).await;
        let many = bytes_per_record(500_000).await;
        assert!(few.abs_diff(many) < few / 5, "{few} and {many} bytes a record");
        assert!(many < 700, "{many} bytes a record");
        short_records_leave_the_heap().await;
        given_back_keys_leave_nothing().await;
    });
}

/// Fills a store, lets everything expire, and checks that the heap is where it was.
async fn bytes_per_record(records: u32) -> usize {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let before = ALLOCATED.allocated();
    for number in 0..records {
        let key = key(number);
        let token = claim(&store, &key, Duration::from_hours(1)).await;
        let complete = CompleteRequest {
            key: &key,
            token,
            attempt: AttemptNumber::FIRST,
            fingerprint: Fingerprint::from_stored_bytes([0; 33]),
            response: vec![0; 300].into(),
            retention: Retention::new(Duration::from_hours(1)).unwrap(),
        };
        let _ = store.complete(complete).await.unwrap();
    }
    let held = ALLOCATED.allocated() - before;
    clock.advance(Duration::from_hours(2));
    until_empty(&store).await;
    is_back_to(before, &format!("{records} records"));
    held / usize::try_from(records).unwrap()
}

async fn short_records_leave_the_heap() {
    let store = MemoryStore::new();
    let before = ALLOCATED.allocated();
    for number in 0..200_000 {
        let _ = claim(&store, &key(number), Duration::from_millis(1)).await;
    }
    until_empty(&store).await;
    is_back_to(before, "200 000 short records");
}

/// A claim with a retention of a year that is given back at once: record and registration are gone
/// after the lease, not after the year.
async fn given_back_keys_leave_nothing() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let before = ALLOCATED.allocated();
    for number in 0..100_000 {
        let key = key(number);
        let token = claim(&store, &key, Duration::from_hours(24 * 365)).await;
        let release = ReleaseRequest {
            key: &key,
            token,
            attempt: AttemptNumber::FIRST,
            release: Release::NotStarted,
        };
        let _ = store.release(release).await.unwrap();
    }
    clock.advance(Duration::from_mins(1));
    until_empty(&store).await;
    is_back_to(before, "100 000 keys given back");
}

async fn claim(store: &MemoryStore, key: &IdempotencyKey, retention: Duration) -> ClaimToken {
    let token = ClaimToken::random().unwrap();
    let claim = ClaimRequest {
        key,
        fingerprint: Fingerprint::from_stored_bytes([0; 33]),
        token,
        lease: Lease::new(retention.min(Duration::from_secs(10))).unwrap(),
        retention: Retention::new(retention).unwrap(),
        takeover: Takeover::Allow,
    };
    let _ = store.claim(claim).await.unwrap();
    token
}

fn key(number: u32) -> IdempotencyKey {
    IdempotencyKey::new("shp", format!("{number:036}")).unwrap()
}

/// Waits for the background task; a sweep at the end waits until it is no longer in the middle.
#[expect(clippy::disallowed_methods, reason = "a deadline in real time")]
async fn until_empty(store: &MemoryStore) {
    let started = tokio::time::Instant::now();
    while !store.is_empty() {
        assert!(started.elapsed() < Duration::from_secs(30), "{} are left", store.len());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let _ = store.sweep(NonZeroU32::MIN).await.unwrap();
}

fn is_back_to(before: usize, what: &str) {
    let left = ALLOCATED.allocated().saturating_sub(before);
    assert!(left < 5 * MEGABYTE, "{what}: {left} bytes stay behind");
}
