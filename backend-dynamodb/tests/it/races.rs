//! Many at once.

use std::sync::Arc;

use idempotency_conformance::unique_namespace;
use idempotency_core::{ClaimOutcome, IdempotencyStore};
use tokio::sync::Barrier;

use crate::support::{
    Caller, TABLE, connect, count, emulator, fresh, item, key, lease, make_older, put, retention,
};

const CLAIMERS: usize = 64;

/// Of 64 that claim at the same time, one acquires.
async fn one_winner(name: &str, store: &Arc<impl IdempotencyStore + 'static>, attempt: u32) {
    let start = Arc::new(Barrier::new(CLAIMERS));
    let claimers: Vec<_> = (0..CLAIMERS)
        .map(|_| {
            let (store, start, caller) =
                (Arc::clone(store), Arc::clone(&start), Caller::new(&key(name)));
            tokio::spawn(async move {
                start.wait().await;
                caller.claim(&*store).await.unwrap()
            })
        })
        .collect();
    let mut winners = 0;
    for claimer in claimers {
        match claimer.await.unwrap() {
            ClaimOutcome::Acquired(acquired) => {
                winners += 1;
                assert_eq!(acquired.attempt.get(), attempt, "{name}");
                assert_eq!(acquired.checkpoint, None, "{name}");
            }
            ClaimOutcome::InProgress(running) => {
                assert_eq!(running.attempt.get(), attempt, "{name}");
            }
            outcome => panic!("{name}: {outcome:?}"),
        }
    }
    assert_eq!(winners, 1, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_64_claims_at_once_one_acquires() {
    let store = Arc::new(fresh().await);
    for round in 0..count(20, 200) {
        one_winner(&round.to_string(), &store, 1).await;
    }
}

/// Kind of fault: TTL deletion comes days late (H-51). The emulator never deletes by itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_past_its_retention_is_absent_although_it_is_there() {
    let namespace = unique_namespace();
    let store = Arc::new(connect(emulator().address(), &namespace).await);
    for (round, is_completed) in (0..count(4, 40)).flat_map(|round| [(round, true), (round, false)])
    {
        let name = format!("{round}-{is_completed}");
        let caller = Caller {
            lease: lease(60_000),
            retention: retention(60_000),
            ..Caller::new(&key(&name))
        };
        caller.acquire(&*store).await;
        if is_completed {
            let _done = caller.complete(&*store, "expired").await.unwrap();
        } else {
            let _held = caller.renew(&*store, 1).await.unwrap();
        }
        let place = namespace.storage_key(&caller.key);
        let mut expired = item(&store, TABLE, place.as_str()).await.unwrap();
        // lease and retention are two minutes, and then it is an hour
        make_older(&mut expired, 3_600_000 + 120_000);
        put(&store, TABLE, expired).await;
        assert_eq!(store.lookup(&caller.key).await.unwrap(), None);
        assert!(item(&store, TABLE, place.as_str()).await.is_some());
        one_winner(&name, &store, 1).await;
    }
}
