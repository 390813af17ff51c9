//! Servers and connections that fail: nothing is lost that was acknowledged, nothing is answered that is
//! not in the store, and everything works again afterwards.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use idempotency_conformance::{Fault, FaultProxy, unique_namespace};
use idempotency_core::{
    ClaimOutcome, Clock, Effect, ErrorKind, FinishOutcome, Idempotency, IdempotencyStore,
    Namespace, Never, Outcome, Release, ReleaseOutcome, RenewOutcome, SystemClock,
};
use idempotency_redis::{RedisStore, redis};
use test_servers::redis::RedisServer;

use crate::support::{Caller, connect, count, fresh, key, raw, replayed, server, soon};

/// A store with short time-outs, for servers that do not answer.
async fn impatient(url: &str, namespace: &Namespace) -> RedisStore {
    RedisStore::builder()
        .namespace(namespace.clone())
        .timeout(Duration::from_millis(500))
        .connect_timeout(Duration::from_millis(400))
        .connect(url)
        .await
        .unwrap()
}

/// No key of the namespace is without an expiry.
async fn every_key_expires(server: &RedisServer, namespace: &Namespace) {
    let mut raw = raw(server).await;
    let pattern = format!("{}/*", namespace.name());
    let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut raw).await.unwrap();
    assert!(!keys.is_empty());
    for key in keys {
        let left: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut raw).await.unwrap();
        assert!(left > 0, "{left}");
    }
}

/// Kind of fault: Redis scripts and cluster (H-45). Scripts that the server was told to forget, or lost
/// with its memory, must not be noticed by anybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_its_scripts_is_not_noticed() {
    let server = RedisServer::start().unwrap();
    let store = fresh(&server.url()).await;
    let forget = || server.tell(&["SCRIPT", "FLUSH"]).unwrap();
    let caller = Caller::new(&key("between"));
    caller.acquire(&store).await;
    for sequence in 1..4 {
        forget();
        let renewed = caller.renew(&store, sequence).await.unwrap();
        assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
    }
    forget();
    assert_eq!(caller.complete(&store, "done").await.unwrap(), FinishOutcome::Done);

    let over = Arc::new(AtomicBool::new(false));
    let forgetting = std::thread::spawn({
        let (over, port) = (Arc::clone(&over), server.url());
        move || {
            let mut raw = redis::Client::open(port).unwrap().get_connection().unwrap();
            while !over.load(Ordering::Relaxed) {
                redis::cmd("SCRIPT").arg("FLUSH").exec(&mut raw).unwrap();
            }
        }
    });
    let tasks: Vec<_> = (0..100)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for round in 0..count(5, 50) {
                    let caller = Caller::new(&key(format!("{task}-{round}")));
                    caller.acquire(&store).await;
                    let renewed = caller.renew(&store, 1).await.unwrap();
                    assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
                    let done = caller.complete(&store, "done").await.unwrap();
                    assert_eq!(done, FinishOutcome::Done);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    forgetting.join().unwrap();

    let caller = Caller::new(&key("restarted"));
    server.kill_and_restart().unwrap();
    // the memory is gone with the server: what is left to show is that nobody sees an error
    caller.acquire(&store).await;
    assert_eq!(caller.complete(&store, "done").await.unwrap(), FinishOutcome::Done);
}

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
    while clock.monotonic()
        < Duration::from_millis(if crate::support::is_full() { 5_000 } else { 1_500 })
    {
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
        idempotency.run(&key(name), crate::support::fingerprint(), work).await
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
