use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
};

use idempotency_core::{Answer, Begun, EventKind, IdempotencyStore, Outcome, Release, State};

use crate::support::*;

/// Polls `future` `polls` times, lets everything else run in between, and drops it. Whether it had
/// ended by then.
async fn polled<T>(future: impl Future<Output = T>, polls: u32) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let ended = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(value) = ended {
            return Some(value);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// C45; kinds of fault: effect done, result not stored (H-10); the claim is freed only on the sunny
/// path (H-11); renewal starts after the owner is gone (H-08). A run is dropped at each of its await
/// points: at most one effect is not known to the next attempt, none is silently repeated, and no
/// task stays.
#[tokio::test(start_paused = true)]
async fn a_run_can_be_dropped_at_every_await_point() {
    let mut ended = 0;
    for polls in 0..60 {
        let store = store();
        let idempotency = executor(store.clone());
        let effects = Arc::new(AtomicU32::new(0));
        let work = async |attempt: idempotency_core::Attempt| {
            tokio::task::yield_now().await;
            effects.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok::<_, Refused>(attempt.number().get())
        };
        let first = polled(idempotency.run(&key("k"), request("body"), work), polls).await;
        eventually("no task stays", || async { tasks() == 0 }).await;
        let started = effects.load(Ordering::SeqCst);
        let record = store.lookup(&key("k")).await.unwrap();
        let completed = record.as_ref().is_some_and(|r| matches!(r.state, State::Completed { .. }));
        if first.is_some() {
            ended += 1;
            assert!(completed);
        }
        assert!(started == 0 || record.is_some(), "after {polls} polls a started key was freed");
        tokio::time::sleep(ms(3_010)).await;
        match run_ok(&idempotency, "k").await {
            Outcome::Replayed(Ok(1)) => assert!(completed && started == 1),
            Outcome::Executed(Ok(1)) => assert_eq!((started, record), (0, None)),
            Outcome::Executed(Ok(2)) => assert!(!completed),
            other => panic!("after {polls} polls: {other:?}"),
        }
    }
    assert!(ended > 10 && ended < 55, "the polls cover the whole run: {ended}");
}

/// The same at random moments, 1 000 times in the full run (H-08): afterwards no key is held.
#[tokio::test(start_paused = true)]
async fn runs_dropped_at_random_moments_leave_no_lease_and_no_task() {
    let store = store();
    let idempotency = executor(store.clone());
    let rounds = count(200, 1_000);
    for n in 0..rounds {
        let name = format!("k{n}");
        let work = async |_| {
            tokio::time::sleep(ms(2_000)).await;
            Ok::<_, Refused>(1_u32)
        };
        let key = key(&name);
        let run = idempotency.run(&key, request("body"), work);
        let after = ms(fastrand::u64(0..2_500));
        let _dropped_or_done = tokio::time::timeout(after, run).await;
    }
    eventually("no task stays", || async { tasks() == 0 }).await;
    tokio::time::sleep(ms(4_000)).await;
    for n in 0..rounds {
        let outcome = run_ok(&idempotency, &format!("k{n}")).await;
        let free = matches!(outcome, Outcome::Executed(_) | Outcome::Replayed(_));
        assert!(free, "{n}: {outcome:?}");
    }
}

/// Completing and releasing can be dropped as well.
#[tokio::test(start_paused = true)]
async fn completing_and_releasing_can_be_dropped_at_every_await_point() {
    for polls in 0..20 {
        for complete in [true, false] {
            let store = store();
            let idempotency = executor(store.clone());
            let begun = idempotency.begin(&key("k"), request("body")).await.unwrap();
            let Begun::Acquired(guard) = begun else { panic!("not acquired") };
            if complete {
                let answer =
                    Answer::value::<u32, Refused>(&Ok(1), idempotency_core::Codec::default())
                        .unwrap();
                let _dropped = polled(guard.complete(answer), polls).await;
            } else {
                let _dropped = polled(guard.release(Release::Failed), polls).await;
            }
            eventually("no task stays", || async { tasks() == 0 }).await;
            assert!(store.lookup(&key("k")).await.unwrap().is_some(), "the key is not freed");
            tokio::time::sleep(ms(3_010)).await;
            match run_ok(&idempotency, "k").await {
                Outcome::Replayed(Ok(1)) => assert!(complete),
                Outcome::Executed(Ok(2)) => {}
                other => panic!("{polls} {complete}: {other:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_an_event() {
    let events = Events::default();
    let idempotency = builder(store()).observer(events.clone()).build().unwrap();
    drop(idempotency.begin(&key("k"), request("body")).await.unwrap());
    assert_eq!(events.kinds(), [EventKind::Acquired, EventKind::Dropped]);
}
