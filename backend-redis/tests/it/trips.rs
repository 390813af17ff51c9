//! What each operation costs: round trips and commands, as the server counts them.

use std::collections::BTreeMap;

use idempotency_core::{
    ClaimOutcome, ClaimRequest, Fingerprint, FinishOutcome, IdempotencyStore, Release,
    ReleaseOutcome, RenewOutcome,
};
use idempotency_redis::{RedisStore, redis};
use test_servers::{redis::RedisServer, until_abandoned};

use crate::support::{Caller, fresh, key, lease, raw, replayed};

/// Asks the server on one connection, so that asking costs the same each time.
struct Counters(redis::aio::MultiplexedConnection);

/// How often the server has read from a connection, and which commands have come or been run by scripts.
#[derive(Debug)]
struct Counted {
    reads: u64,
    commands: BTreeMap<String, u64>,
}

impl Counters {
    async fn now(&mut self) -> Counted {
        let mut info = redis::cmd("INFO");
        let info: String = info.arg("everything").query_async(&mut self.0).await.unwrap();
        let reads = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
        let commands = info.lines().filter_map(|line| {
            let (name, calls) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), calls.split(',').next()?.parse().unwrap()))
        });
        Counted { reads: reads.unwrap().parse().unwrap(), commands: commands.collect() }
    }

    /// Round trips, and the commands, without those that ask.
    async fn of<T>(&mut self, work: impl Future<Output = T>) -> (T, u64, Vec<String>) {
        let before = self.now().await;
        let answer = work.await;
        let after = self.now().await;
        let grown = after.commands.iter().filter(|(name, calls)| {
            *name != "info" && before.commands.get(*name).is_none_or(|before| before < *calls)
        });
        let commands = grown.map(|(name, _)| name.clone()).collect();
        (answer, after.reads - before.reads - 1, commands)
    }
}

/// A store whose server has all of its scripts.
async fn warm(server: &RedisServer) -> RedisStore {
    let store = fresh(&server.url()).await;
    for (name, is_kept) in [("complete", true), ("release", false)] {
        let caller = Caller { lease: lease(1), ..Caller::new(&key(format!("warm-{name}"))) };
        caller.acquire(&store).await;
        caller.acquire(&store).await;
        assert!(matches!(caller.renew(&store, 1).await.unwrap(), RenewOutcome::Held { .. }));
        assert!(store.lookup(&caller.key).await.unwrap().is_some());
        if is_kept {
            assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
        } else {
            let released = caller.release(&store, Release::Failed).await.unwrap();
            assert_eq!(released, ReleaseOutcome::Released);
        }
    }
    store
}

/// A claim that its owner does not repeat, a replay, a conflict and a mismatch take no script; nothing that a
/// service does all the time takes a second trip.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_one_round_trip() {
    let server = RedisServer::start().unwrap();
    let store = warm(&server).await;
    let mut counters = Counters(raw(&server).await);
    let caller = Caller::new(&key("k"));
    let no_script = ["pttl", "set"];

    let ((), trips, commands) = counters.of(caller.acquire(&store)).await;
    assert_eq!((trips, commands), (1, no_script.map(str::to_owned).to_vec()), "claim");
    let other = Caller::new(&caller.key);
    let (running, trips, commands) = counters.of(other.claim(&store)).await;
    assert!(matches!(running.unwrap(), ClaimOutcome::InProgress(_)));
    assert_eq!((trips, commands), (1, no_script.map(str::to_owned).to_vec()), "in progress");
    let another_request = ClaimRequest {
        key: &other.key,
        fingerprint: Fingerprint::of_bytes("another request"),
        token: other.token,
        lease: other.lease,
        retention: other.retention,
        takeover: other.takeover,
    };
    let (mismatch, trips, commands) = counters.of(store.claim(another_request)).await;
    assert!(matches!(mismatch.unwrap(), ClaimOutcome::Mismatch(_)));
    assert_eq!((trips, commands), (1, no_script.map(str::to_owned).to_vec()), "mismatch");

    let (renewed, trips, commands) = counters.of(caller.renew(&store, 1)).await;
    assert!(matches!(renewed.unwrap(), RenewOutcome::Held { .. }));
    assert!(trips == 1 && commands.contains(&"evalsha".to_owned()), "{trips}: {commands:?}");
    let (found, trips, _) = counters.of(store.lookup(&caller.key)).await;
    assert!(trips == 1 && found.unwrap().is_some(), "{trips}");
    let (finished, trips, commands) = counters.of(caller.complete(&store, "answer")).await;
    assert_eq!(finished.unwrap(), FinishOutcome::Done);
    assert!(trips == 1 && commands.contains(&"evalsha".to_owned()), "{trips}: {commands:?}");
    let (answer, trips, commands) = counters.of(replayed(&store, &caller.key)).await;
    assert_eq!(answer, "answer");
    assert_eq!((trips, commands), (1, no_script.map(str::to_owned).to_vec()), "replay");

    let released = Caller::new(&key("released"));
    released.acquire(&store).await;
    let (outcome, trips, _) = counters.of(released.release(&store, Release::Failed)).await;
    assert_eq!((outcome.unwrap(), trips), (ReleaseOutcome::Released, 1));
}

/// What the first trip cannot decide is decided anew by a script.
#[tokio::test(flavor = "multi_thread")]
async fn a_take_over_and_an_own_token_take_a_second_trip() {
    let server = RedisServer::start().unwrap();
    let store = warm(&server).await;
    let mut counters = Counters(raw(&server).await);
    let brief = Caller { lease: lease(1), ..Caller::new(&key("k")) };
    brief.acquire(&store).await;
    until_abandoned(&store, &brief.key).await;
    let next = Caller::new(&brief.key);
    let ((), trips, commands) = counters.of(next.acquire(&store)).await;
    assert!(trips == 2 && commands.contains(&"evalsha".to_owned()), "{trips}: {commands:?}");
    let ((), trips, commands) = counters.of(next.acquire(&store)).await;
    assert!(trips == 2 && commands.contains(&"evalsha".to_owned()), "{trips}: {commands:?}");
}
