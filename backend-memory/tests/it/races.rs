//! Many callers at once.

use std::{sync::Arc, time::Duration};

use idempotency_core::{ClaimOutcome, FinishOutcome, IdempotencyStore};
use idempotency_memory::MemoryStore;
use tokio::{runtime, sync::Barrier};

use crate::support::{Caller, LEASE, attempt, eventually, millis, store};

/// Kind of fault: a claim that is not one atomic step, so that two callers are told to go ahead (H-01).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_simultaneous_claims_exactly_one_is_acquired() {
    const CALLERS: usize = 50;
    let (store, _clock) = store();
    for round in 0..200 {
        let first = Caller::of(format!("round {round}"));
        let barrier = Arc::new(Barrier::new(CALLERS));
        let claims = (0..CALLERS).map(|_| {
            let (store, caller) = (store.clone(), first.another());
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                barrier.wait().await;
                (caller.token, caller.claim(&store).await)
            })
        });
        let mut winners = Vec::new();
        for claim in claims.collect::<Vec<_>>() {
            match claim.await.unwrap() {
                (token, ClaimOutcome::Acquired(_)) => winners.push(token),
                (_, ClaimOutcome::InProgress(_)) => {}
                (_, other) => panic!("{other:?}"),
            }
        }
        let stored = store.lookup(&first.key).await.unwrap().unwrap();
        assert_eq!(winners, [stored.token], "round {round}");
    }
}

/// Kind of fault: a take-over decided on an old look at the record (H-04), as a race: owner and
/// successor act in the same moment after the lease, and one of them wins for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_completion_and_a_take_over_in_the_same_moment_agree() {
    let (store, clock) = store();
    for round in 0..1_000 {
        let owner = Caller::of(format!("round {round}"));
        owner.acquires(&store, 1).await;
        clock.advance(LEASE + millis(1));
        let (successor, third) = (owner.another(), owner.another());
        let barrier = Arc::new(Barrier::new(3));
        let completes = tokio::spawn({
            let (store, owner, barrier) = (store.clone(), owner.clone(), Arc::clone(&barrier));
            async move {
                barrier.wait().await;
                owner.complete(&store, 1, "owner").await
            }
        });
        let [second, third] = [successor, third].map(|caller| {
            let (store, barrier) = (store.clone(), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                caller.claim(&store).await
            })
        });
        let answers = [second.await.unwrap(), third.await.unwrap()];
        let acquired = answers.iter().filter(|a| matches!(a, ClaimOutcome::Acquired(_))).count();
        let replayed = answers.iter().filter(|a| matches!(a, ClaimOutcome::Replay(_))).count();
        match completes.await.unwrap() {
            FinishOutcome::Done => assert_eq!((acquired, replayed), (0, 2), "{answers:?}"),
            FinishOutcome::Lost => assert_eq!((acquired, replayed), (1, 0), "{answers:?}"),
            FinishOutcome::Restored => panic!("the record was gone"),
        }
    }
}

/// Kind of fault: a lock table that stalls under load (H-63). Callers that are dropped anywhere leave
/// nothing that blocks the others.
async fn many_duplicates_with_tasks_dropped_at_random() {
    const KEYS: usize = 500;
    const DUPLICATES: usize = 20;
    let store = MemoryStore::new();
    let mut tasks = Vec::new();
    for number in 0..KEYS * DUPLICATES {
        let first = Caller { lease: millis(20), ..Caller::of(format!("k{}", number % KEYS)) };
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                match first.claim(&store).await {
                    ClaimOutcome::Acquired(acquired) => {
                        tokio::task::yield_now().await;
                        let number = acquired.attempt.get();
                        // lost, when the others were faster than the lease
                        let _ = first.complete(&store, number, first.key.key().to_owned()).await;
                    }
                    ClaimOutcome::Replay(replay) => {
                        break assert_eq!(replay.response, first.key.key());
                    }
                    ClaimOutcome::InProgress(_) => tokio::time::sleep(millis(1)).await,
                    other => panic!("{other:?}"),
                }
            }
        }));
        if number % 7 == 0 {
            tokio::task::yield_now().await;
            let victim = number * 31 % tasks.len();
            tasks[victim].abort();
        }
    }
    for task in tasks {
        match task.await {
            Ok(()) => {}
            Err(error) => assert!(error.is_cancelled(), "{error}"),
        }
    }
    assert!(store.len() <= KEYS);
    // whatever was dropped in the middle: each key can still be executed
    for number in 0..KEYS {
        let last = Caller::of(format!("k{number}"));
        let mut done = false;
        while !done {
            match last.claim(&store).await {
                ClaimOutcome::InProgress(_) => tokio::time::sleep(millis(1)).await,
                ClaimOutcome::Acquired(_) | ClaimOutcome::Replay(_) => done = true,
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn many_duplicates_finish_on_any_runtime() {
    let within = Duration::from_secs(20);
    for mut builder in
        [runtime::Builder::new_current_thread(), runtime::Builder::new_multi_thread()]
    {
        let runtime = builder.enable_time().build().unwrap();
        runtime
            .block_on(async {
                tokio::time::timeout(within, many_duplicates_with_tasks_dropped_at_random()).await
            })
            .expect("finishes within seconds");
    }
}

/// Claims, completions and expiry at the same time: nobody is told anything but the truth.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_that_expire_beside_live_traffic_do_not_disturb_it() {
    let (store, clock) = store();
    let traffic = (0..4).map(|task| {
        let (store, clock) = (store.clone(), clock.clone());
        tokio::spawn(async move {
            for number in 0..5_000 {
                let owner =
                    Caller { retention: millis(5), ..Caller::of(format!("{task}/{number}")) };
                owner.acquires(&store, 1).await;
                let done = owner.complete(&store, 1, "done").await;
                // the record outlives its lease; only the clock of another task can end it before
                assert!(matches!(done, FinishOutcome::Done), "{done:?}");
                let record = store.lookup(&owner.key).await.unwrap();
                assert!(record.is_none_or(|record| record.attempt == attempt(1)));
                if number % 10 == 0 {
                    clock.advance(millis(1));
                }
            }
        })
    });
    for task in traffic.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    clock.advance(LEASE);
    eventually("all are gone", || store.is_empty()).await;
}
