//! Replies that are somebody else's (H-48).

use std::time::Duration;

use idempotency_conformance::{Fault, FaultProxy, unique_namespace};
use idempotency_core::{ClaimOutcome, Effect, ErrorKind, FinishOutcome, RenewOutcome};
use idempotency_redis::redis;

use crate::support::{Caller, connect, count, impatient, key, raw, replayed, server, soon};

/// Kind of fault: Redis connection and failover (H-48). A reply that never comes, on a connection that stays,
/// leaves the driver out of step: the next reply is about another key. It is refused and the connection given
/// up, whoever asks for what.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_out_of_step_is_given_up() {
    let proxy = FaultProxy::start(server().address()).await.unwrap();
    let namespace = unique_namespace();
    let store = impatient(&format!("redis://{}", proxy.address()), &namespace).await;
    let (done, held) = (Caller::new(&key("done")), Caller::new(&key("held")));
    done.acquire(&store).await;
    assert_eq!(done.complete(&store, "the answer of done").await.unwrap(), FinishOutcome::Done);
    held.acquire(&store).await;
    for round in 1..=count(5, 100) {
        proxy.set(Fault::SwallowReply);
        // the first waits for a reply that was swallowed, and gets that of the second
        let first = tokio::spawn({
            let (store, held) = (store.clone(), held.clone());
            async move { held.renew(&store, round.into()).await }
        });
        soon!("a swallowed reply", (proxy.fault() == Fault::None).then_some(()));
        let second = Caller::new(&done.key).claim(&store).await;
        let first = first.await.unwrap().unwrap_err();
        assert_eq!(first.effect(), Effect::Unknown, "{first}");
        // the second has either been sent again or gets none
        match second {
            Ok(ClaimOutcome::Replay(replay)) => assert_eq!(replay.response, "the answer of done"),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        let renewed = soon!("a renewal", held.renew(&store, round.into()).await.ok());
        assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
        assert_eq!(replayed(&store, &done.key).await, "the answer of done");
    }
}

/// Kind of fault: Redis connection and failover (H-48). On one connection that all tasks share, some
/// futures are dropped half-way and some commands are answered with errors. Every reply must still be
/// that of its own key.
#[tokio::test(flavor = "multi_thread")]
async fn replies_belong_to_their_key_among_errors_and_dropped_futures() {
    let namespace = unique_namespace();
    let store = connect(&server().url(), &namespace).await;
    let mut raw = raw(server()).await;
    for task in 0..100 {
        let caller = Caller::new(&key(task));
        caller.acquire(&store).await;
        let response = format!("the answer of {task} {}", "x".repeat(task * 7));
        assert_eq!(caller.complete(&store, response).await.unwrap(), FinishOutcome::Done);
        // where an error is the answer
        let wrong = namespace.storage_key(&key(format!("wrong-{task}")));
        let () =
            redis::cmd("LPUSH").arg(wrong.as_str()).arg("x").query_async(&mut raw).await.unwrap();
    }
    let tasks: Vec<_> = (0..100)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                let (own, wrong) = (key(task), key(format!("wrong-{task}")));
                let expected = format!("the answer of {task} {}", "x".repeat(task * 7));
                for round in 0..count(60, 1_000) {
                    assert_eq!(replayed(&store, &own).await, expected);
                    let error = Caller::new(&wrong).claim(&store).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Corrupt);
                    let error = Caller::new(&wrong).complete(&store, "x").await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Corrupt);
                    let dropped = Caller::new(&own);
                    let dropped = dropped.claim(&store);
                    let at_most = Duration::from_micros(u64::from(round) % 150);
                    let _dropped_half_way = tokio::time::timeout(at_most, dropped).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for task in 0..100 {
        let wrong = namespace.storage_key(&key(format!("wrong-{task}")));
        let () = redis::cmd("DEL").arg(wrong.as_str()).query_async(&mut raw).await.unwrap();
    }
}
