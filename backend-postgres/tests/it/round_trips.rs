//! What goes over the wire.

use std::{sync::Arc, time::Duration};

use idempotency_conformance::unique_namespace;
use idempotency_core::{ClaimOutcome, FinishOutcome, IdempotencyStore};
use test_servers::postgres::CommitProxy;

use crate::support::{Caller, builder, execute, key, raw, runtime, server, soon};

const OPERATIONS: u64 = 3;

/// A pool that asks the server whether it is there, when it takes a connection back or gives it away,
/// doubles them. A slow machine may let a connection go back to its pool in between: not each time.
#[test]
fn a_lone_operation_is_one_round_trip() {
    runtime().block_on(async {
        let proxy = CommitProxy::start(server().address(), Duration::ZERO).await.unwrap();
        // on one connection the next operation waits for whatever the pool asks
        let store = builder(&unique_namespace()).max_connections(1);
        let store = store.connect(&proxy.url()).await.unwrap();
        let caller = Caller::new(&key("lone"));
        caller.acquire(&store).await;
        assert_eq!(caller.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
        soon("three operations in three round trips", async || {
            let before = proxy.requests();
            for _ in 0..OPERATIONS {
                let again = Caller::new(&key("lone")).claim(&store).await.unwrap();
                assert!(matches!(again, ClaimOutcome::Replay(_)), "{again:?}");
            }
            let sent = proxy.requests() - before;
            assert!(sent >= OPERATIONS, "{sent}");
            (sent == OPERATIONS).then_some(())
        })
        .await;
    });
}

/// Kind of fault: connections that lie about starve the pool's other users, or outlive their server.
#[test]
fn a_connection_between_two_operations_is_there_for_everybody_and_may_be_dead() {
    runtime().block_on(async {
        let store = builder(&unique_namespace()).max_connections(1);
        let store = Arc::new(store.connect(&server().url()).await.unwrap());
        Caller::new(&key(0)).acquire(&*store).await;
        let mut held = store.pool().acquire().await.unwrap();
        let other = tokio::spawn({
            let store = Arc::clone(&store);
            async move { Caller::new(&key(1)).acquire(&*store).await }
        });
        let pid: i32 = idempotency_postgres::sqlx::query_scalar("SELECT pg_backend_pid()")
            .fetch_one(&mut *held)
            .await
            .unwrap();
        drop(held);
        other.await.unwrap();
        let killer = raw(&server().url());
        execute(&killer, format!("SELECT pg_terminate_backend({pid})")).await;
        assert!(store.lookup(&key(1)).await.unwrap().is_some());
        store.pool().close().await;
    });
}
