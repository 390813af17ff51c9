//! Servers that die, hang and come back.

use futures_util::future::join_all;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Clock, Effect, ErrorKind, FinishOutcome, Idempotency, IdempotencyStore, Never,
    Outcome, SystemClock,
};
use idempotency_postgres::PostgresStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use test_servers::postgres::PostgresServer;

use crate::support::{Caller, builder, fingerprint, fresh, key, replayed, runtime, set_up, soon};

/// Kinds of fault: acknowledged and then lost when the server dies, and a client that never finds back
/// to it. Killed on the spot while clients work.
#[test]
fn a_server_that_is_killed_loses_nothing_it_has_acknowledged() {
    let server = PostgresServer::options().set("fsync", "on").start().unwrap();
    set_up(&server);
    runtime().block_on(async {
        let store = Arc::new(fresh(&server.url()).await);
        let is_back = Arc::new(AtomicBool::new(false));
        let worker = |worker: u32| {
            let (store, is_back) = (Arc::clone(&store), Arc::clone(&is_back));
            tokio::spawn(async move {
                let (mut done, mut number, mut since) = (Vec::new(), 0, 0);
                // some before the crash, some after it
                while since < 20 {
                    number += 1;
                    assert!(number < 20_000, "it never comes back");
                    let caller = Caller::new(&key(format!("{worker} {number}")));
                    let was_back = is_back.load(Ordering::SeqCst);
                    if work(&store, &caller).await.is_some() {
                        done.push(caller.key);
                        since += u32::from(was_back);
                    }
                }
                done
            })
        };
        let workers: Vec<_> = (0..8).map(worker).collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::task::block_in_place(|| server.crash_and_restart()).unwrap();
        is_back.store(true, Ordering::SeqCst);
        for done in join_all(workers).await {
            for key in done.unwrap() {
                assert_eq!(replayed(&*store, &key).await, "answer", "acknowledged and lost");
            }
        }
    });
}

/// Claims and completes; none when the store failed on the way.
async fn work(store: &PostgresStore, caller: &Caller) -> Option<()> {
    let claimed = caller.claim(store).await;
    if !matches!(claimed, Ok(ClaimOutcome::Acquired(_))) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        return None;
    }
    let completed = caller.complete(store, "answer").await.ok()?;
    assert_ne!(completed, FinishOutcome::Lost);
    Some(())
}

/// Kind of fault: without the store the request goes on unprotected, or hangs (H-59).
#[test]
fn a_server_that_hangs_fails_closed_in_time_and_is_used_again_afterwards() {
    let server = PostgresServer::start().unwrap();
    set_up(&server);
    runtime().block_on(async {
        let store = builder(&unique_namespace()).timeout(Duration::from_millis(500));
        let store = store.connect(&server.url()).await.unwrap();
        let idempotency = Idempotency::builder(store.connected())
            .store_timeout(Duration::from_millis(600))
            .store_deadline(Duration::from_millis(1_200))
            .build()
            .unwrap();
        let run = |name: &'static str| {
            let idempotency = idempotency.clone();
            async move {
                let ran = AtomicBool::new(false);
                let key = key(name);
                let outcome = idempotency.run(&key, fingerprint(), async |_| {
                    ran.store(true, Ordering::SeqCst);
                    Ok::<_, Never>(1)
                });
                let outcome = outcome.await;
                (outcome, ran.load(Ordering::SeqCst))
            }
        };
        assert!(matches!(run("before").await, (Ok(Outcome::Executed(_)), true)));
        server.process().freeze().unwrap();
        freeze_children(&server, "STOP");
        let clock = SystemClock::new();
        let (outcome, ran) = run("during").await;
        assert!(outcome.is_err() && !ran, "{outcome:?}");
        assert!(clock.monotonic() < Duration::from_secs(3), "{:?}", clock.monotonic());
        freeze_children(&server, "CONT");
        server.process().thaw().unwrap();
        soon("the store again", async || run("after").await.0.is_ok().then_some(())).await;
    });
}

/// The postmaster answers nothing by itself: its children do.
fn freeze_children(server: &PostgresServer, signal: &str) {
    let parent = server.process().pid().to_string();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    for child in children.unwrap_or_default().split_whitespace() {
        let kill = std::process::Command::new("kill").args(["-s", signal, child]).status();
        assert!(kill.unwrap().success());
    }
}

/// Kind of fault: a connection of the pool is lost for ever to a BEGIN, a COMMIT or a ROLLBACK that a hung
/// server does not answer (C51).
#[test]
fn transactions_on_a_hung_server_end_in_time_and_free_their_place_in_the_pool() {
    let server = PostgresServer::start().unwrap();
    set_up(&server);
    runtime().block_on(async {
        let timeout = Duration::from_millis(300);
        let store = builder(&unique_namespace()).max_connections(3).timeout(timeout);
        let store = store.connect(&server.url()).await.unwrap();
        let committed = store.begin().await.unwrap();
        let dropped = store.begin().await.unwrap();
        // the third place is that of an idle connection, for the BEGIN
        assert!(store.lookup(&key("idle")).await.unwrap().is_none());
        soon("three connections", async || (store.pool().size() == 3).then_some(())).await;
        server.process().freeze().unwrap();
        freeze_children(&server, "STOP");
        let clock = SystemClock::new();
        let error = store.begin().await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::None), "{error}");
        let error = committed.commit().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Timeout, Effect::Unknown),
            "{error}"
        );
        drop(dropped);
        soon("free places", async || (store.pool().size() == 0).then_some(())).await;
        assert!(clock.monotonic() < Duration::from_secs(5), "{:?}", clock.monotonic());
        freeze_children(&server, "CONT");
        server.process().thaw().unwrap();
        let again = soon("a transaction again", async || store.begin().await.ok()).await;
        again.rollback().await;
    });
}
