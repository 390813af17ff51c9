use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use async_trait::async_trait;
use futures_util::FutureExt;
use idempotency_core::{
    Begun, Connected, Idempotency, IdempotencyKey, OnDuplicate, Operation, Outcome, StoreError,
    Watch, Watching,
};
use tokio::sync::Notify;

use crate::support::*;

fn waiting(store: impl idempotency_core::IdempotencyStore + 'static) -> Idempotency {
    builder(store).on_duplicate(OnDuplicate::Wait { timeout: ms(20_000) }).build().unwrap()
}

/// Kind of fault: a waiter runs again instead of reading again (H-12). 20 waiters, half of them on
/// an executor of their own, as another process would be.
#[tokio::test(start_paused = true)]
async fn waiters_get_the_owners_answer() {
    for round in 0..count(50, 500) {
        let store = store();
        let (here, there) = (waiting(store.clone()), waiting(store));
        let runs = Arc::new(AtomicU32::new(0));
        let start = |idempotency: &Idempotency| {
            let (idempotency, runs) = (idempotency.clone(), Arc::clone(&runs));
            tokio::spawn(async move {
                let work = async |_| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(ms(u64::from(round * 7))).await;
                    Ok::<_, Refused>(round)
                };
                idempotency.run(&key("k"), request("body"), work).await.unwrap()
            })
        };
        let tasks: Vec<_> =
            (0..21).map(|n| start(if n % 2 == 0 { &here } else { &there })).collect();
        for task in tasks {
            match task.await.unwrap() {
                Outcome::Executed(Ok(n)) | Outcome::Replayed(Ok(n)) => assert_eq!(n, round),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// Waiters in one process share one watch: the store is looked at as often for 100 as for one.
#[tokio::test(start_paused = true)]
async fn a_hundred_waiters_look_as_often_as_one() {
    let looks_of = async |waiters: usize| {
        let faulty = Faulty::new(store(), |_| Plan::Deliver);
        let idempotency = waiting(faulty.clone());
        let other = executor(faulty.clone());
        let Begun::Acquired(guard) = other.begin(&key("k"), request("body")).await.unwrap() else {
            panic!("not acquired")
        };
        let waiting: Vec<_> = (0..waiters)
            .map(|_| {
                let idempotency = idempotency.clone();
                tokio::spawn(async move { run_ok(&idempotency, "k").await })
            })
            .collect();
        tokio::time::sleep(ms(2_900)).await;
        let answer = idempotency_core::Answer::value::<u32, Refused>(
            &Ok(9),
            idempotency_core::Codec::default(),
        );
        let _stored = guard.complete(answer.unwrap()).await;
        for task in waiting {
            assert!(matches!(task.await.unwrap(), Outcome::Replayed(Ok(9))));
        }
        eventually("the watch ends", || async { tasks() == 0 }).await;
        faulty.calls(Operation::Lookup)
    };
    let (one, hundred) = (looks_of(1).await, looks_of(100).await);
    assert!((5..30).contains(&one), "{one}");
    assert!(hundred <= one + 10, "{hundred} looks for 100 waiters, {one} for one");
}

/// A waiter takes over when the owner fails, and when it dies; it is told which attempt it is.
#[tokio::test(start_paused = true)]
async fn a_waiter_takes_over_when_the_owner_fails_or_dies() {
    for dies in [false, true] {
        let store = store();
        let (owner, idempotency) = (executor(store.clone()), waiting(store));
        let Begun::Acquired(guard) = owner.begin(&key("k"), request("body")).await.unwrap() else {
            panic!("not acquired")
        };
        let waiter = {
            let idempotency = idempotency.clone();
            tokio::spawn(async move { run_ok(&idempotency, "k").await })
        };
        tokio::time::sleep(ms(500)).await;
        assert!(!waiter.is_finished());
        if dies {
            drop(guard);
        } else {
            let _told = guard.release(idempotency_core::Release::Failed).await.unwrap();
        }
        assert!(matches!(waiter.await.unwrap(), Outcome::Executed(Ok(2))));
    }
}

/// The time to wait is kept, and then the answer is that it is still running.
#[tokio::test(start_paused = true)]
async fn waiting_ends_with_its_time_out() {
    let store = store();
    let owner = executor(store.clone());
    let wait = OnDuplicate::Wait { timeout: ms(1_000) };
    let idempotency = builder(store).on_duplicate(wait).build().unwrap();
    let Begun::Acquired(_guard) = owner.begin(&key("k"), request("body")).await.unwrap() else {
        panic!("not acquired")
    };
    let run = tokio::time::timeout(ms(1_020), run_ok(&idempotency, "k"));
    assert!(matches!(run.await.expect("it waits longer"), Outcome::InProgress(_)));
}

/// Dropped waiters leave nothing behind.
#[tokio::test(start_paused = true)]
async fn dropped_waiters_leave_no_task_behind() {
    let store = store();
    let (owner, idempotency) = (executor(store.clone()), waiting(store));
    let Begun::Acquired(guard) = owner.begin(&key("k"), request("body")).await.unwrap() else {
        panic!("not acquired")
    };
    for after in [0, 1, 15, 300, 2_000] {
        let run = tokio::time::timeout(ms(after), run_ok(&idempotency, "k"));
        assert!(run.await.is_err());
    }
    drop(guard);
    eventually("all tasks end", || async { tasks() == 0 }).await;
}

/// Where the store can tell, waiters hear of it before they would have looked.
#[tokio::test(start_paused = true)]
async fn a_store_that_tells_is_heard() {
    let store = store();
    let bell = Bell::default();
    let connected = Connected::from(store.clone()).with_watch(Arc::new(bell.clone()));
    let idempotency = Idempotency::builder(connected)
        .on_duplicate(OnDuplicate::Wait { timeout: ms(20_000) })
        .build()
        .unwrap();
    let owner = executor(store);
    let Begun::Acquired(guard) = owner.begin(&key("k"), request("body")).await.unwrap() else {
        panic!("not acquired")
    };
    let waiter = tokio::spawn(async move { run_ok(&idempotency, "k").await });
    // by now it looks every 250 to 500 ms only
    tokio::time::sleep(ms(2_500)).await;
    assert_eq!(*bell.watched.lock().unwrap(), [key("k")]);
    let answer =
        idempotency_core::Answer::value::<u32, Refused>(&Ok(9), idempotency_core::Codec::default());
    let _stored = guard.complete(answer.unwrap()).await;
    bell.ring.notify_one();
    let outcome = tokio::time::timeout(ms(5), waiter).await.expect("not heard").unwrap();
    assert!(matches!(outcome, Outcome::Replayed(Ok(9))));
}

#[derive(Clone, Debug, Default)]
struct Bell {
    watched: Arc<Mutex<Vec<IdempotencyKey>>>,
    ring: Arc<Notify>,
}

#[async_trait]
impl Watch for Bell {
    async fn watch(&self, key: &IdempotencyKey) -> Result<Box<dyn Watching>, StoreError> {
        self.watched.lock().unwrap().push(key.clone());
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Watching for Bell {
    async fn changed(&mut self) -> Result<(), StoreError> {
        self.ring.notified().await;
        Ok(())
    }
}

/// Kind of fault: dead-lock (H-63). A duplicate that begins to wait while its runtime ends.
#[test]
fn a_duplicate_that_begins_to_wait_while_its_runtime_ends_does_not_stop_the_end() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = store();
    let guard = runtime.block_on(executor(store.clone()).begin(&key("k"), request("body")));
    let idempotency = waiting(store);
    let (started, has_started) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        started.send(()).unwrap();
        // until the other worker has closed the runtime
        std::thread::sleep(ms(300));
        let mut run = std::pin::pin!(run_ok(&idempotency, "k"));
        // a task is not polled again after that, so it is all one poll
        for _ in 0..10 {
            assert!((&mut run).now_or_never().is_none());
        }
    });
    has_started.recv().unwrap();
    let (ended, has_ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(runtime);
        ended.send(()).unwrap();
    });
    has_ended.recv_timeout(ms(10_000)).expect("the runtime never ends");
    drop(guard);
}

/// Kinds of fault: a server that accepts and never answers (H-59), a task for each key ever waited for
/// (H-62). Waiters look by themselves while the store does not begin to tell.
#[tokio::test(start_paused = true)]
async fn a_store_that_never_begins_to_tell_delays_nobody_and_keeps_no_task() {
    let store = store();
    let connected = Connected::from(store.clone()).with_watch(Arc::new(Deaf));
    let idempotency = Idempotency::builder(connected)
        .on_duplicate(OnDuplicate::Wait { timeout: ms(20_000) })
        .build()
        .unwrap();
    let owner = Idempotency::new(store);
    let Begun::Acquired(guard) = owner.begin(&key("k"), request("body")).await.unwrap() else {
        panic!("not acquired")
    };
    let waiter = tokio::spawn(async move { run_ok(&idempotency, "k").await });
    tokio::time::sleep(ms(500)).await;
    let _told = guard.release(idempotency_core::Release::Failed).await.unwrap();
    let outcome = tokio::time::timeout(ms(3_000), waiter).await.expect("not noticed").unwrap();
    assert!(matches!(outcome, Outcome::Executed(Ok(2))));
    eventually("all tasks end", || async { tasks() == 0 }).await;
}

#[derive(Debug)]
struct Deaf;

#[async_trait]
impl Watch for Deaf {
    async fn watch(&self, _: &IdempotencyKey) -> Result<Box<dyn Watching>, StoreError> {
        std::future::pending().await
    }
}

/// Kind of fault: waiters who hear nothing (H-12), because the task that looks for them is in a runtime
/// that nobody drives any more.
#[test]
fn a_waiter_hears_of_the_answer_though_another_runtime_stands_still() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (idle, driven) = (runtime(), runtime());
    let store = store();
    let idempotency = waiting(store.clone());
    let owner = executor(store);
    driven.block_on(async {
        let begun = owner.begin(&key("k"), request("body")).await.unwrap();
        let Begun::Acquired(guard) = begun else { panic!("not acquired") };
        let leaving = idempotency.clone();
        std::thread::scope(|threads| {
            let waits = async { tokio::time::timeout(ms(50), run_ok(&leaving, "k")).await };
            let left = threads.spawn(|| idle.block_on(waits)).join().unwrap();
            assert!(left.is_err());
        });
        let waiter = tokio::spawn(async move { run_ok(&idempotency, "k").await });
        tokio::time::sleep(ms(100)).await;
        let _stored = guard.release(idempotency_core::Release::Failed).await.unwrap();
        let heard = tokio::time::timeout(ms(1_500), waiter).await.expect("not heard").unwrap();
        assert!(matches!(heard, Outcome::Executed(Ok(2))), "{heard:?}");
    });
}
