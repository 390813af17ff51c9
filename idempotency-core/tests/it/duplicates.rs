use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use idempotency_core::{EventKind, OnDuplicate, Outcome};
use tokio::sync::Barrier;

use crate::support::*;

/// Kinds of fault: a claim that is not atomic (H-01); a lost race shown as an error (H-15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_50_simultaneous_duplicates_one_runs() {
    let events = Events::default();
    let idempotency = builder(store()).observer(events.clone()).build().unwrap();
    for round in 0..200 {
        let (barrier, runs) = (Arc::new(Barrier::new(50)), Arc::new(AtomicU32::new(0)));
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (idempotency, barrier) = (idempotency.clone(), Arc::clone(&barrier));
                let runs = Arc::clone(&runs);
                tokio::spawn(async move {
                    barrier.wait().await;
                    let work = async |_| {
                        runs.fetch_add(1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        Ok::<_, Refused>(7_u32)
                    };
                    idempotency.run(&key(&format!("k{round}")), request("body"), work).await
                })
            })
            .collect();
        let mut executed = 0;
        for task in tasks {
            match task.await.unwrap().unwrap() {
                Outcome::Executed(Ok(7)) => executed += 1,
                Outcome::Replayed(Ok(7)) | Outcome::InProgress(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((executed, runs.load(Ordering::SeqCst)), (1, 1), "round {round}");
    }
    assert_eq!(events.count(EventKind::Acquired), 200);
}

/// Kind of fault: a refused duplicate clears the owner's claim (H-05). The record is compared byte
/// for byte.
#[tokio::test(start_paused = true)]
async fn refused_duplicates_change_nothing() {
    let store = store();
    let idempotency = executor(store.clone());
    let owner = {
        let idempotency = idempotency.clone();
        tokio::spawn(async move {
            let work = async |_| {
                tokio::time::sleep(ms(900)).await;
                Ok::<_, Refused>(1_u32)
            };
            idempotency.run(&key("k"), request("first"), work).await.unwrap()
        })
    };
    tokio::time::sleep(ms(100)).await;
    let before = store.records().raw();
    let again = |body: &'static str| {
        let idempotency = &idempotency;
        let work = async |_| -> Result<u32, Refused> { panic!("a duplicate ran") };
        async move { idempotency.run(&key("k"), request(body), work).await.unwrap() }
    };
    let Outcome::InProgress(running) = again("first").await else { panic!("not refused") };
    assert!(running.lease_remaining <= ms(3_000) && running.running_for >= ms(100));
    // kind of fault: mismatch not checked while the first is running (H-23)
    assert!(matches!(again("other").await, Outcome::Mismatch(_)));
    assert_eq!(store.records().raw(), before);
    assert!(matches!(owner.await.unwrap(), Outcome::Executed(Ok(1))));
    let before = store.records().raw();
    assert!(matches!(again("first").await, Outcome::Replayed(Ok(1))));
    assert!(matches!(again("other").await, Outcome::Mismatch(_)));
    assert_eq!(store.records().raw(), before);
}

/// Kind of fault: only the latest request is remembered (H-67, the part below HTTP): operations on
/// one entity have keys of their own.
#[tokio::test(start_paused = true)]
async fn a_late_retry_of_an_earlier_operation_is_replayed() {
    let idempotency = executor(store());
    assert!(matches!(run_ok(&idempotency, "pause").await, Outcome::Executed(_)));
    assert!(matches!(run_ok(&idempotency, "unpause").await, Outcome::Executed(_)));
    assert!(matches!(run_ok(&idempotency, "pause").await, Outcome::Replayed(Ok(1))));
}

/// Kind of fault: contention and latency (H-63): 500 keys with 20 duplicates each, some dropped at
/// random, all waiting; nothing hangs.
async fn contend() {
    let wait = OnDuplicate::Wait { timeout: ms(60_000) };
    // on a machine that does much else a try times out: it is made again for as long as all may take
    let patient = builder(store()).on_duplicate(wait).store_deadline(ms(60_000));
    let idempotency = patient.build().unwrap();
    let runs: Arc<Vec<AtomicU32>> = Arc::new((0..500).map(|_| AtomicU32::new(0)).collect());
    let tasks: Vec<_> = (0..10_000_usize)
        .map(|n| {
            let (idempotency, runs) = (idempotency.clone(), Arc::clone(&runs));
            tokio::spawn(async move {
                let (name, index) = (format!("k{}", n % 500), n % 500);
                let work = async |_| {
                    runs[index].fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    Ok::<_, Refused>(1_u32)
                };
                idempotency.run(&key(&name), request("body"), work).await.unwrap()
            })
        })
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        // only duplicates are dropped: the first 500 are the owners
        if n >= 500 && fastrand::u8(..) < 40 {
            task.abort();
        } else {
            let outcome = tokio::time::timeout(ms(60_000), task).await.expect("a task hangs");
            assert!(matches!(outcome.unwrap(), Outcome::Executed(_) | Outcome::Replayed(_)));
        }
    }
    assert!(runs.iter().all(|runs| runs.load(Ordering::SeqCst) >= 1));
}

#[tokio::test]
async fn contention_on_one_thread_ends_within_seconds() {
    contend().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn contention_on_many_threads_ends_within_seconds() {
    contend().await;
}
