//! Futures that are dropped, and connections that others need.

use futures_util::future::join_all;
use idempotency_conformance::unique_namespace;
use idempotency_core::{Clock, Idempotency, IdempotencyStore, Never, Outcome, SystemClock};
use idempotency_postgres::sqlx;
use std::time::Duration;
use test_servers::postgres::CommitProxy;

use crate::support::{
    Caller, builder, connect, count, fingerprint, key, number, raw, runtime, server,
};

/// Kind of fault: a future dropped in the middle of a statement leaves its connection in a state that
/// nobody expects (H-55). One connection, a slow network, and callers who lose their patience.
#[test]
fn dropped_operations_leave_a_pool_of_one_usable() {
    runtime().block_on(async {
        let proxy =
            CommitProxy::start(server().address(), Duration::from_millis(10)).await.unwrap();
        let namespace = unique_namespace();
        let url = format!("{}?application_name=cancelled", proxy.url());
        let store = builder(&namespace).max_connections(1).connect(&url).await.unwrap();
        let direct = connect(&server().url(), &namespace).await;
        for round in 0..count(30, 1_000) {
            let patience = || Duration::from_micros(fastrand::u64(0..40_000));
            let dropped = Caller::new(&key(format!("dropped {round}")));
            let claimed = tokio::time::timeout(patience(), dropped.claim(&store)).await;
            if let Ok(claimed) = claimed {
                let _ = claimed.unwrap();
                let completed = dropped.complete(&store, "answer");
                let _patience = tokio::time::timeout(patience(), completed).await;
            }
            let next = Caller::new(&key(format!("next {round}")));
            next.acquire(&store).await;
            let seen = direct.lookup(&next.key).await.unwrap();
            assert!(seen.is_some(), "a claim that was acknowledged and is not there");
        }
        let pool = raw(&server().url());
        let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cancelled' \
            AND state LIKE 'idle in transaction%'";
        assert_eq!(number(&pool, open).await, 0);
    });
}

/// Kind of fault: a connection is held while the work runs, and the work needs one of the same pool
/// (H-56).
#[test]
fn work_that_uses_the_stores_pool_finds_connections_in_it() {
    runtime().block_on(async {
        let store = builder(&unique_namespace()).max_connections(5);
        // a busy machine is slow, and a stand-still is for ever
        let store = store.timeout(Duration::from_secs(20));
        let store = store.connect(&server().url()).await.unwrap();
        let idempotency = Idempotency::new(store.connected());
        let clock = SystemClock::new();
        let work = |number: u32| {
            let (store, idempotency) = (store.clone(), idempotency.clone());
            async move {
                let key = key(number);
                let run = idempotency.run(&key, fingerprint(), async |_| {
                    let sleep = sqlx::query("SELECT pg_sleep(0.1)").execute(store.pool());
                    sleep.await.unwrap();
                    if number.is_multiple_of(5) {
                        let failed = sqlx::query("SELECT 1 / 0").execute(store.pool()).await;
                        assert!(failed.is_err());
                    }
                    Ok::<_, Never>(number)
                });
                run.await.unwrap()
            }
        };
        let all = join_all((0..50).map(work)).await;
        assert!(all.iter().all(|outcome| matches!(outcome, Outcome::Executed(Ok(_)))), "{all:?}");
        assert!(clock.monotonic() < Duration::from_secs(5), "{:?}", clock.monotonic());
    });
}
