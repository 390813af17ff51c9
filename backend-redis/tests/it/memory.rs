//! A server without room (H-46).

use idempotency_core::{
    ClaimOutcome, Effect, ErrorKind, FinishOutcome, IdempotencyStore, RenewOutcome,
};
use idempotency_redis::redis;
use test_servers::redis::RedisServer;

use crate::support::{Caller, fresh, key, raw, replayed};

/// Kind of fault: eviction of live claims (H-46). A server without room refuses, with no effect: the
/// work does not run, and what is there stays and is answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_claims_and_keeps_what_it_has() {
    let server = RedisServer::options().set("maxmemory-policy", "noeviction").start().unwrap();
    let store = fresh(&server.url()).await;
    let before = Caller::new(&key("before"));
    before.acquire(&store).await;
    let done = Caller::new(&key("done"));
    done.acquire(&store).await;
    assert_eq!(done.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
    server.tell(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    // a retry of what is done or under way needs no room
    assert_eq!(replayed(&store, &done.key).await, "answer");
    let duplicate = Caller::new(&before.key).claim(&store).await.unwrap();
    assert!(matches!(duplicate, ClaimOutcome::InProgress(_)), "{duplicate:?}");
    for script in [false, true] {
        let caller = Caller::new(&key(format!("refused-{script}")));
        let error = if script {
            before.complete(&store, "x".repeat(1_000)).await.unwrap_err()
        } else {
            caller.claim(&store).await.unwrap_err()
        };
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Full, Effect::None), "{error}");
    }
    server.tell(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert_eq!(before.complete(&store, "done").await.unwrap(), FinishOutcome::Done);
}

/// Kind of fault: eviction of live claims (H-46). Where the server is allowed to evict, a claim can be
/// gone: its owner is told so by its completion, and a renewal does not create it again.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_an_evicted_claim_is_told() {
    let options = RedisServer::options().set("maxmemory-policy", "allkeys-lru");
    let server = options.start().unwrap();
    let store = fresh(&server.url()).await;
    let caller = Caller::new(&key("evicted"));
    caller.acquire(&store).await;
    let mut raw = raw(&server).await;
    server.tell(&["CONFIG", "SET", "maxmemory", "4mb"]).unwrap();
    for filler in 0.. {
        let () = redis::cmd("SET")
            .arg(format!("filler-{filler}"))
            .arg("x".repeat(10_000))
            .query_async(&mut raw)
            .await
            .unwrap();
        if store.lookup(&caller.key).await.unwrap().is_none() {
            break;
        }
        assert!(filler < 10_000, "nothing was evicted");
    }
    assert_eq!(caller.renew(&store, 1).await.unwrap(), RenewOutcome::Lost);
    assert!(store.lookup(&caller.key).await.unwrap().is_none());
    assert_eq!(caller.complete(&store, "done").await.unwrap(), FinishOutcome::Restored);
}
