//! Requests and replies that are lost, late or cut off: no outcome is told that is not in the store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use idempotency_conformance::{Fault, FaultProxy, unique_namespace};
use idempotency_core::{
    ClaimOutcome, Clock, FinishOutcome, IdempotencyStore, Release, ReleaseOutcome, RenewOutcome,
    SystemClock,
};
use idempotency_redis::RedisStore;

use crate::support::{
    Caller, connect, count, every_key_expires, impatient, key, replayed, server, soon,
};

/// Kind of fault: outcome of a write misread (H-50). For each operation the request, or the reply to it,
/// is lost, swallowed on a connection that stays, or too late; the caller asks again and finds its own success,
/// never a conflict with itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_own_lost_success_is_no_conflict() {
    let proxy = FaultProxy::start(server().address()).await.unwrap();
    let namespace = unique_namespace();
    let store = impatient(&format!("redis://{}", proxy.address()), &namespace).await;
    for (name, fault) in [
        ("request", Fault::LoseRequests),
        ("reply", Fault::LoseReplies),
        ("hang", Fault::Hang),
        ("refuse", Fault::Refuse),
        ("swallowed request", Fault::SwallowRequest),
        ("swallowed reply", Fault::SwallowReply),
        ("late", Fault::Delay(Duration::from_millis(700))),
    ] {
        let done = Caller::new(&key(format!("done-{name}")));
        let released = Caller::new(&key(format!("released-{name}")));
        // a failure, and then the same again over a network that works
        macro_rules! twice {
            ($ask:expr) => {{
                proxy.set(fault);
                // a connection that was open may still carry a first one
                let error = soon!("a failure", $ask.await.err());
                assert!(error.is_transient(), "{name}: {error}");
                proxy.set(Fault::None);
                soon!("an answer", $ask.await.ok())
            }};
        }
        let claimed = twice!(done.claim(&store));
        assert!(matches!(claimed, ClaimOutcome::Acquired(_)), "{name}: {claimed:?}");
        let renewed = twice!(done.renew(&store, 1));
        assert!(matches!(renewed, RenewOutcome::Held { .. }), "{name}: {renewed:?}");
        assert_eq!(twice!(done.complete(&store, "answer")), FinishOutcome::Done, "{name}");
        assert_eq!(twice!(store.lookup(&done.key)).unwrap().attempt.get(), 1);
        assert_eq!(replayed(&store, &done.key).await, "answer");
        released.acquire(&store).await;
        let outcome = twice!(released.release(&store, Release::Failed));
        assert_eq!(outcome, ReleaseOutcome::Released, "{name}");
    }
    every_key_expires(server(), &namespace).await;
}

/// A slow network makes everything late and nothing wrong.
#[tokio::test(flavor = "multi_thread")]
async fn delays_within_the_time_out_are_only_waited_for() {
    let proxy = FaultProxy::start(server().address()).await.unwrap();
    let namespace = unique_namespace();
    let store = connect(&format!("redis://{}", proxy.address()), &namespace).await;
    proxy.set(Fault::Delay(Duration::from_millis(50)));
    let clock = SystemClock::new();
    one_of_everything(&store, &store, "slow").await;
    assert!(clock.monotonic() > Duration::from_millis(300), "nothing was late");
    every_key_expires(server(), &namespace).await;
}

/// Kind of fault: Redis connection and failover. Connections are cut at random moments, before and
/// after the effect, and slowed down; every outcome that was told is the one in the store.
#[tokio::test(flavor = "multi_thread")]
async fn random_cuts_leave_no_outcome_that_is_not_in_the_store() {
    let proxy = Arc::new(FaultProxy::start(server().address()).await.unwrap());
    let namespace = unique_namespace();
    let store = impatient(&format!("redis://{}", proxy.address()), &namespace).await;
    let direct = connect(&server().url(), &namespace).await;
    let over = Arc::new(AtomicBool::new(false));
    let cutting = tokio::spawn({
        let (proxy, over) = (Arc::clone(&proxy), Arc::clone(&over));
        async move {
            for _ in 0..count(100, 1_000) {
                let late = Fault::Delay(Duration::from_millis(fastrand::u64(1..20)));
                let fault = [Fault::LoseRequests, Fault::LoseReplies, Fault::Refuse, late];
                proxy.set(fault[fastrand::usize(..fault.len())]);
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..4))).await;
                proxy.set(Fault::None);
                tokio::time::sleep(Duration::from_millis(fastrand::u64(5..30))).await;
            }
            over.store(true, Ordering::Relaxed);
        }
    });
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (store, direct, over) = (store.clone(), direct.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                for round in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    one_of_everything(&store, &direct, &format!("{task}-{round}")).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    cutting.await.unwrap();
    every_key_expires(server(), &namespace).await;
}

async fn one_of_everything(store: &RedisStore, direct: &RedisStore, name: &str) {
    let caller = Caller::new(&key(name));
    let claimed = soon!("a claim", caller.claim(store).await.ok());
    assert!(matches!(claimed, ClaimOutcome::Acquired(_)), "{claimed:?}");
    let renewed = soon!("a renewal", caller.renew(store, 1).await.ok());
    assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
    if fastrand::bool() {
        assert_eq!(
            soon!("a completion", caller.complete(store, name.to_owned()).await.ok()),
            FinishOutcome::Done
        );
        assert_eq!(replayed(direct, &caller.key).await, name.to_owned());
    } else {
        assert_eq!(
            soon!("a release", caller.release(store, Release::Failed).await.ok()),
            ReleaseOutcome::Released
        );
        let next = Caller::new(&caller.key).claim(direct).await.unwrap();
        let ClaimOutcome::Acquired(next) = next else { panic!("{next:?}") };
        assert_eq!(next.attempt.get(), 2);
    }
}
