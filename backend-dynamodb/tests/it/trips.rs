//! What each operation costs: requests, and units as the emulator counts them.

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, FinishOutcome, IdempotencyStore, Release, ReleaseOutcome, RenewOutcome, Takeover,
};
use idempotency_dynamodb::DynamoDbStore;
use test_servers::dynamodb::{DynamoDbProxy, Seen};

use crate::support::{Caller, TABLE, item, key, lease, proxied, proxied_in, put, until_abandoned};

fn requests(proxy: &DynamoDbProxy) -> Vec<String> {
    proxy.take_seen().into_iter().map(|seen| seen.operation).collect()
}

async fn abandoned(store: &DynamoDbStore, name: &str) {
    let caller = Caller { lease: lease(1), ..Caller::new(&key(name)) };
    caller.acquire(store).await;
    until_abandoned(store, &caller.key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_one_request() {
    let (proxy, store) = proxied().await;
    let caller = Caller::new(&key("k"));
    caller.acquire(&store).await;
    assert_eq!(requests(&proxy), ["PutItem"], "claim");
    caller.acquire(&store).await;
    assert_eq!(requests(&proxy), ["PutItem"], "claim again");
    let running = Caller::new(&key("k")).claim(&store).await.unwrap();
    assert!(matches!(running, ClaimOutcome::InProgress(_)), "{running:?}");
    assert_eq!(requests(&proxy), ["PutItem"], "in progress");
    let held = caller.renew(&store, 1).await.unwrap();
    assert!(matches!(held, RenewOutcome::Held { .. }), "{held:?}");
    assert_eq!(requests(&proxy), ["UpdateItem"], "renew");
    assert_eq!(caller.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
    assert_eq!(requests(&proxy), ["UpdateItem"], "complete");
    assert_eq!(caller.complete(&store, "again").await.unwrap(), FinishOutcome::Done);
    assert_eq!(requests(&proxy), ["UpdateItem"], "complete again");
    let replay = Caller::new(&key("k")).claim(&store).await.unwrap();
    assert!(matches!(replay, ClaimOutcome::Replay(_)), "{replay:?}");
    assert_eq!(requests(&proxy), ["PutItem"], "replay");
    assert!(store.lookup(&key("k")).await.unwrap().is_some());
    assert_eq!(requests(&proxy), ["GetItem"], "lookup");
    for (name, release) in
        [("n", Release::NotStarted), ("f", Release::Failed), ("u", Release::Unknown)]
    {
        let caller = Caller::new(&key(name));
        caller.acquire(&store).await;
        requests(&proxy);
        assert_eq!(caller.release(&store, release).await.unwrap(), ReleaseOutcome::Released);
        assert_eq!(requests(&proxy), ["UpdateItem"], "release");
        let again = caller.release(&store, release).await.unwrap();
        assert_eq!(again, ReleaseOutcome::Released);
        assert_eq!(requests(&proxy), ["UpdateItem"], "release again");
    }
    assert_eq!(
        Caller::new(&key("gone")).complete(&store, "x").await.unwrap(),
        FinishOutcome::Restored
    );
    assert_eq!(requests(&proxy), ["UpdateItem"], "complete what is gone");
    abandoned(&store, "a").await;
    requests(&proxy);
    let refusing = Caller { takeover: Takeover::Refuse, ..Caller::new(&key("a")) };
    let outcome = refusing.claim(&store).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::Abandoned(_)), "{outcome:?}");
    assert_eq!(requests(&proxy), ["PutItem"], "abandoned");
}

/// The first write tells what is there and that the clock is right; the second one takes over if nothing
/// has changed since.
#[tokio::test(flavor = "multi_thread")]
async fn a_take_over_is_two_requests() {
    let (proxy, store) = proxied().await;
    abandoned(&store, "a").await;
    proxy.take_seen();
    Caller::new(&key("a")).acquire(&store).await;
    assert_eq!(requests(&proxy), ["PutItem", "PutItem"]);
}

/// A replay is a write that is refused: the service bills it by the size of the item, and no read beside
/// it. The refusal does not tell its units, so they are asked for with an item of the same size.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_record_costs_a_unit_for_each_operation() {
    let namespace = unique_namespace();
    let (proxy, store) = proxied_in(&namespace).await;
    let caller = Caller::new(&key("k"));
    caller.acquire(&store).await;
    let one = |operation: &str| [Seen { operation: operation.to_owned(), units: Some(1.0) }];
    assert_eq!(proxy.take_seen(), one("PutItem"), "claim");
    let renewed = caller.renew(&store, 1).await.unwrap();
    assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
    assert_eq!(proxy.take_seen(), one("UpdateItem"), "renew");
    assert_eq!(caller.complete(&store, vec![7; 300]).await.unwrap(), FinishOutcome::Done);
    assert_eq!(proxy.take_seen(), one("UpdateItem"), "complete");
    let replay = Caller::new(&key("k")).claim(&store).await.unwrap();
    assert!(matches!(replay, ClaimOutcome::Replay(_)), "{replay:?}");
    assert_eq!(requests(&proxy), ["PutItem"], "replay");
    // half a unit would be a read that may be behind
    assert!(store.lookup(&key("k")).await.unwrap().is_some());
    assert_eq!(proxy.take_seen(), one("GetItem"), "lookup");
    let place = namespace.storage_key(&key("k"));
    let same_size = item(&store, TABLE, place.as_str()).await.unwrap();
    proxy.take_seen();
    put(&store, TABLE, same_size).await;
    assert_eq!(proxy.take_seen(), one("PutItem"), "a put of the same size");
}
