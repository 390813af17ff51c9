//! Real executors over a real store.

use std::time::Duration;

use idempotency_core::{
    Begun, Classify, Disposition, Fingerprint, Idempotency, Never, OnDuplicate, Outcome,
};
use idempotency_memory::MemoryStore;

use crate::support::{Recorded, key};

fn executor(recorded: &Recorded) -> Idempotency {
    let store = recorded.observer.meter(MemoryStore::new().connected());
    Idempotency::builder(store)
        .observer(recorded.observer.clone())
        .on_duplicate(OnDuplicate::Wait { timeout: Duration::from_secs(20) })
        .label("ietf")
        .build()
        .unwrap()
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Down;

impl Classify for Down {
    fn disposition(&self) -> Disposition {
        Disposition::Failed
    }
}

/// What moved, without what depends on how fast the machine is.
fn counts(recorded: &Recorded) -> Vec<String> {
    recorded.moved().into_iter().filter(|moved| !moved.contains("_sum")).collect()
}

#[tokio::test]
async fn a_key_that_fails_once_and_is_then_repeated() {
    let recorded = Recorded::new();
    let idempotency = executor(&recorded);
    let request = Fingerprint::of_bytes("order");
    let failing = async |_| Err::<u32, _>(Down);
    let _failed = idempotency.run(&key("k"), request, failing).await.unwrap();
    assert_eq!(
        counts(&recorded),
        [
            "attempt_duration_seconds_count +1",
            "attempts_total{outcome=failed} +1",
            "requests_total{outcome=first} +1",
            "store_call_duration_seconds_count{operation=claim} +1",
            "store_call_duration_seconds_count{operation=release} +1",
        ]
    );
    let working = async |_| Ok::<_, Never>(7);
    let done = idempotency.run(&key("k"), request, working).await.unwrap();
    assert!(matches!(done, Outcome::Executed(Ok(7))));
    assert_eq!(
        counts(&recorded),
        [
            "attempt_duration_seconds_count +1",
            "attempts_total{outcome=completed} +1",
            "requests_total{outcome=taken_over} +1",
            "retry_age_seconds_count{outcome=executed} +1",
            "store_call_duration_seconds_count{operation=claim} +1",
            "store_call_duration_seconds_count{operation=complete} +1",
        ]
    );
    let again = idempotency.run(&key("k"), request, working).await.unwrap();
    assert!(matches!(again, Outcome::Replayed(Ok(7))));
    assert_eq!(
        counts(&recorded),
        [
            "requests_total{outcome=replayed} +1",
            "retry_age_seconds_count{outcome=replayed} +1",
            "store_call_duration_seconds_count{operation=claim} +1",
        ]
    );
}

/// Gauges come back to where they were.
#[tokio::test]
async fn what_is_in_flight_and_who_waits_is_shown_while_it_lasts() {
    let recorded = Recorded::new();
    let idempotency = executor(&recorded);
    let request = Fingerprint::of_bytes("order");
    let Begun::Acquired(guard) = idempotency.begin(&key("k"), request).await.unwrap() else {
        panic!("not acquired")
    };
    let waiter = {
        let idempotency = idempotency.clone();
        tokio::spawn(async move { idempotency.begin(&key("k"), request).await.unwrap() })
    };
    let mut seen = recorded.moved();
    let waits = async {
        while !seen.contains(&"waiters +1".to_owned()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
            seen.extend(recorded.moved());
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waits).await.unwrap();
    assert!(seen.contains(&"attempts_in_flight +1".to_owned()), "{seen:?}");
    let _stored = guard.complete(idempotency_core::Answer::bytes("x")).await;
    assert!(matches!(waiter.await.unwrap(), Begun::Replayed(_)));
    let then = recorded.moved();
    for moved in ["attempts_in_flight -1", "waiters -1", "wait_duration_seconds_count +1"] {
        assert!(then.contains(&moved.to_owned()), "{moved}: {then:?}");
    }
}
