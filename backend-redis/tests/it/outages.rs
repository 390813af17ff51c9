//! Servers that die, hang or are not there: nothing is lost that was acknowledged, nothing runs meanwhile, and
//! everything works again afterwards without a restart.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Clock, Doctor, Effect, ErrorKind, FinishOutcome, Idempotency, ListQuery, Never,
    Outcome, StoreAdmin, SystemClock,
};
use test_servers::redis::RedisServer;

use crate::support::{
    Caller, connect, count, every_key_expires, fingerprint, fresh, impatient, is_full, key,
    replayed, soon,
};

/// Kind of fault: store down. A server that is killed under load and comes back has every answer that
/// was acknowledged, given that it keeps a file of what it is told; and nobody runs twice.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_kill_under_load() {
    let options = RedisServer::options().set("appendonly", "yes").set("appendfsync", "always");
    let server = options.start().unwrap();
    let namespace = unique_namespace();
    let store = connect(&server.url(), &namespace).await;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let (store, over, done) = (store.clone(), Arc::clone(&over), Arc::clone(&done));
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for round in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let caller = Caller::new(&key(format!("{task}-{round}")));
                    let response = format!("answer {task}-{round}");
                    // as the executor does: the same again until there is an answer
                    let claimed = soon!("a claim", caller.claim(&store).await.ok());
                    assert!(matches!(claimed, ClaimOutcome::Acquired(_)), "{claimed:?}");
                    let finished =
                        soon!("a completion", caller.complete(&store, response.clone()).await.ok());
                    assert_ne!(finished, FinishOutcome::Lost);
                    acknowledged.push((caller.key, response));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                acknowledged
            })
        })
        .collect();
    for kill in 1..=count(2, 10) {
        let enough = done.load(Ordering::Relaxed) + 50;
        soon!("work", (done.load(Ordering::Relaxed) > enough).then_some(()));
        if kill % 2 == 0 {
            server.process().freeze().unwrap();
        }
        server.kill_and_restart().unwrap();
    }
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        for (key, response) in task.await.unwrap() {
            assert_eq!(replayed(&store, &key).await, response);
        }
    }
    every_key_expires(&server, &namespace).await;
}

/// Kind of fault: store down (H-59). A server that accepts and says nothing is an error within the
/// time-out, with effect unknown; when it goes on, everybody does, on the same store.
#[tokio::test(flavor = "multi_thread")]
async fn a_hung_server_is_an_error_in_time_and_comes_back() {
    let server = RedisServer::start().unwrap();
    let store = impatient(&server.url(), &unique_namespace()).await;
    let before = Caller::new(&key("before"));
    before.acquire(&store).await;
    let clock = SystemClock::new();
    server.process().freeze().unwrap();
    let patience = Duration::from_millis(500);
    let hung = Caller::new(&key("hung"));
    // long enough that connections are given up and dialled anew while it hangs
    while clock.monotonic() < Duration::from_millis(if is_full() { 5_000 } else { 1_500 }) {
        let begin = clock.monotonic();
        let error = hung.claim(&store).await.unwrap_err();
        assert!(clock.monotonic() < begin + patience * 3, "late");
        assert!(error.is_transient(), "{error}");
    }
    let error = before.complete(&store, "done").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{error}");
    server.process().thaw().unwrap();
    // whatever was in the server's buffers has the same token: it is the same claim
    let claimed = soon!("a claim", hung.claim(&store).await.ok());
    assert!(matches!(claimed, ClaimOutcome::Acquired(_)), "{claimed:?}");
    assert_eq!(before.complete(&store, "done").await.unwrap(), FinishOutcome::Done);
    assert_eq!(hung.complete(&store, "done").await.unwrap(), FinishOutcome::Done);
}

/// Kind of fault: store down (H-59). A server that is not there refuses at once and with no effect, and
/// is found again without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_refuses_and_is_found_again() {
    let server = RedisServer::start().unwrap();
    let store = fresh(&server.url()).await;
    server.process().kill().unwrap();
    let caller = Caller::new(&key("refused"));
    let _first_may_be_a_broken_connection = caller.claim(&store).await.unwrap_err();
    let error = caller.claim(&store).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    server.restart().unwrap();
    caller.acquire(&store).await;
}

/// Kind of fault: store down (H-59). A program that lists and examines and does nothing else finds the server
/// again as well: its connection was kept for ever.
#[tokio::test(flavor = "multi_thread")]
async fn operators_find_a_restarted_server_again() {
    let server = RedisServer::start().unwrap();
    for examines in [true, false] {
        let store = fresh(&server.url()).await;
        let ask = async || {
            if examines {
                store.examine().await.map(|findings| findings.len())
            } else {
                store.list(ListQuery::default()).await.map(|page| page.records.len())
            }
        };
        let before = ask().await.unwrap();
        server.process().kill().unwrap();
        let error = ask().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::None),
            "{error}"
        );
        server.restart().unwrap();
        assert_eq!(soon!("the server", ask().await.ok()), before);
    }
}

/// Kind of fault: store down (H-59). Unless it is told otherwise, the executor runs nothing that the store
/// cannot protect: not while the server hangs and not while it is gone. Afterwards it runs, without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn no_work_runs_unprotected_while_the_server_is_down() {
    let server = RedisServer::start().unwrap();
    let store = impatient(&server.url(), &unique_namespace()).await;
    let timeout = Duration::from_millis(500);
    let builder = Idempotency::builder(store.connected()).store_timeout(timeout);
    let idempotency = builder.build().unwrap();
    let runs = AtomicU32::new(0);
    let run = async |name: &str| {
        let work = async |_| Ok::<_, Never>(runs.fetch_add(1, Ordering::Relaxed));
        idempotency.run(&key(name), fingerprint(), work).await
    };
    let clock = SystemClock::new();
    server.process().freeze().unwrap();
    run("hung").await.unwrap_err();
    server.process().thaw().unwrap();
    server.process().kill().unwrap();
    run("gone").await.unwrap_err();
    assert!(clock.monotonic() < Duration::from_secs(30), "{:?}", clock.monotonic());
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    server.restart().unwrap();
    let outcome = soon!("the server", run("back").await.ok());
    assert!(matches!(outcome, Outcome::Executed(Ok(0))), "{outcome:?}");
}
