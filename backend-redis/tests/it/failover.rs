//! Replicas, Sentinels, a Cluster whose primary dies.

use std::{num::NonZeroU32, time::Duration};

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Clock, Effect, ErrorKind, FinishOutcome, RenewOutcome, SystemClock,
};
use idempotency_redis::RedisStore;
use test_servers::redis::{RedisCluster, RedisSentinel, RedisServer};

use crate::support::{Caller, connect, fresh, key, replayed, soon};

/// Kind of fault: Redis connection and failover (H-49). What the replica had not got is gone: the
/// duplicate runs as attempt 1, and the first owner's completion is refused. Where nobody came in
/// between, it is stored, and said to be restored.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_loses_what_was_not_replicated_and_the_owner_is_told() {
    let primary = RedisServer::start().unwrap();
    let replica = RedisServer::options().replica_of(&primary).start().unwrap();
    replica.wait_until_replicating().unwrap();
    let namespace = unique_namespace();
    let store = connect(&primary.url(), &namespace).await;
    // what is in the sockets would still arrive, so the replica is told to look elsewhere
    replica.tell(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let (taken, alone) = (Caller::new(&key("taken")), Caller::new(&key("alone")));
    taken.acquire(&store).await;
    alone.acquire(&store).await;
    primary.process().kill().unwrap();
    replica.tell(&["REPLICAOF", "NO", "ONE"]).unwrap();

    let promoted = connect(&replica.url(), &namespace).await;
    let duplicate = Caller::new(&taken.key).claim(&promoted).await.unwrap();
    let ClaimOutcome::Acquired(duplicate) = duplicate else { panic!("{duplicate:?}") };
    assert_eq!(duplicate.attempt.get(), 1);
    assert_eq!(taken.renew(&promoted, 1).await.unwrap(), RenewOutcome::Lost);
    assert_eq!(taken.complete(&promoted, "x").await.unwrap(), FinishOutcome::Lost);
    assert_eq!(alone.renew(&promoted, 1).await.unwrap(), RenewOutcome::Lost);
    assert_eq!(alone.complete(&promoted, "x").await.unwrap(), FinishOutcome::Restored);
}

/// Kind of fault: Redis connection and failover (H-49). With replicas to wait for, a claim that they do
/// not have is refused; once they have it, the same claim is acquired and survives.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_for_replicas_is_refused_without_them() {
    let primary = RedisServer::start().unwrap();
    let replica = RedisServer::options().replica_of(&primary).start().unwrap();
    replica.wait_until_replicating().unwrap();
    let namespace = unique_namespace();
    let store = RedisStore::builder()
        .namespace(namespace.clone())
        .wait_replicas(NonZeroU32::MIN, Duration::from_millis(600))
        .connect(&primary.url())
        .await
        .unwrap();
    let replicated = Caller::new(&key("replicated"));
    let claimed = soon!("a replica", replicated.claim(&store).await.ok());
    assert!(matches!(claimed, ClaimOutcome::Acquired(_)), "{claimed:?}");
    let paused = Caller::new(&key("paused"));
    replica.process().freeze().unwrap();
    let error = paused.claim(&store).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
    replica.process().thaw().unwrap();
    let claimed = soon!("replicas", paused.claim(&store).await.ok());
    assert!(matches!(claimed, ClaimOutcome::Acquired(_)), "{claimed:?}");
    // many at once share the waits
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move { Caller::new(&key(task)).acquire(&store).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    primary.process().kill().unwrap();
    replica.tell(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let promoted = connect(&replica.url(), &namespace).await;
    assert_eq!(paused.complete(&promoted, "x").await.unwrap(), FinishOutcome::Done);
}

/// Kind of fault: Redis connection and failover (H-45, H-49). The primary is killed, or hangs; the
/// Sentinels promote the replica, and the same store goes on there.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_follows_its_sentinels_to_the_new_primary() {
    for hangs in [false, true] {
        let servers = RedisSentinel::start().unwrap();
        let store = RedisStore::builder()
            .namespace(unique_namespace())
            .timeout(Duration::from_millis(700))
            .connect(&servers.url())
            .await
            .unwrap();
        let before = Caller::new(&key("before"));
        before.acquire(&store).await;
        assert_eq!(before.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
        servers.replica().wait_for(&["DBSIZE"], |size| size == "1").unwrap();
        let clock = SystemClock::new();
        if hangs {
            servers.primary().process().freeze().unwrap();
        } else {
            servers.primary().process().kill().unwrap();
        }
        let after = Caller::new(&key("after"));
        let claimed = soon!("a promoted replica", after.claim(&store).await.ok());
        assert!(matches!(claimed, ClaimOutcome::Acquired(_)), "{claimed:?}");
        assert!(clock.monotonic() < Duration::from_secs(30), "{:?}", clock.monotonic());
        assert_eq!(replayed(&store, &before.key).await, "answer");
        assert_eq!(after.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
        if hangs {
            servers.primary().process().thaw().unwrap();
        }
    }
}

/// Sentinels that accept and never answer keep nobody from the primary that another one knows.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_hang_do_not_stand_in_the_way() {
    let listeners = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let deaf = listeners.each_ref().map(|listener| listener.local_addr().unwrap().to_string());
    let servers = RedisSentinel::start().unwrap();
    let deaf_first = format!("redis+sentinel://{},", deaf.join(","));
    let url = servers.url().replacen("redis+sentinel://", &deaf_first, 1);
    let store = fresh(&url).await;
    let caller = Caller::new(&key("k"));
    caller.acquire(&store).await;
    servers.primary().ask(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    let finished = soon!("a new connection", caller.complete(&store, "x").await.ok());
    assert_eq!(finished, FinishOutcome::Done);
}

/// Kind of fault: Redis connection and failover. A primary of a Cluster is killed: its replica takes
/// over, and the same store goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_primary_dies_goes_on() {
    let cluster = RedisCluster::start().unwrap();
    let store = fresh(&cluster.url()).await;
    let callers: Vec<_> = (0..20).map(|number| Caller::new(&key(number))).collect();
    for caller in &callers {
        caller.acquire(&store).await;
    }
    let first = &cluster.nodes()[0];
    first.ask(&["WAIT", "1", "2000"]).unwrap();
    first.process().kill().unwrap();
    for caller in &callers {
        let finished = soon!("a completion", caller.complete(&store, "x").await.ok());
        assert_ne!(finished, FinishOutcome::Lost);
        let outcome = soon!("a replay", Caller::new(&caller.key).claim(&store).await.ok());
        assert!(matches!(outcome, ClaimOutcome::Replay(_)), "{outcome:?}");
    }
}

/// A server that was made a replica answers READONLY: the connection is made anew, and while the
/// address leads to a replica, claims are refused with no effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_server_refuses_with_no_effect() {
    let (primary, demoted) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let store = fresh(&demoted.url()).await;
    let port = primary.port().to_string();
    demoted.tell(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    demoted.wait_until_replicating().unwrap();
    let caller = Caller::new(&key("refused"));
    let error = caller.claim(&store).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    demoted.tell(&["REPLICAOF", "NO", "ONE"]).unwrap();
    caller.acquire(&store).await;
}
