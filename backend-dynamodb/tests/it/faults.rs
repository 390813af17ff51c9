//! What the service, the network and the driver do: a lost success is no conflict (H-50), and no failure is
//! taken for an answer.

use std::time::Duration;

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Effect, ErrorKind, Fingerprint, FinishOutcome, Idempotency, IdempotencyStore,
    Never, Outcome, Release, ReleaseOutcome, RenewOutcome,
};
use idempotency_dynamodb::DynamoDbStore;
use test_servers::dynamodb::{DynamoDbProxy, Fault};

use crate::support::{
    Caller, builder, count, emulator, key, lease, proxied, replayed, soon, until_abandoned,
};

/// The proxy keeps the success to itself, and the driver sends again.
async fn swallowing<T: std::fmt::Debug>(
    proxy: &DynamoDbProxy,
    operation: &'static str,
    work: impl Future<Output = T>,
) -> T {
    proxy.take_seen();
    proxy.set(Fault::Swallow(operation));
    let answer = work.await;
    assert!(proxy.is_well(), "{operation} was not swallowed");
    let sent = proxy.take_seen();
    assert!(
        sent.iter().filter(|seen| seen.operation == operation).count() >= 2,
        "{answer:?}: {sent:?}"
    );
    answer
}

/// A store whose driver repeats a request after 2.4 s.
async fn impatient(proxy: &DynamoDbProxy) -> DynamoDbStore {
    let builder = builder(&unique_namespace()).timeout(Duration::from_secs(8));
    builder.endpoint(format!("http://{}", proxy.address())).connect().await.unwrap()
}

/// Kind of fault: own lost success looks like a conflict (H-50). Twenty icechunk commits and many a lock
/// were lost to oneself this way.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_success_is_no_conflict_with_oneself() {
    let proxy = DynamoDbProxy::start(emulator().address()).await.unwrap();
    let store = impatient(&proxy).await;
    let caller = Caller { lease: lease(60_000), ..Caller::new(&key("k")) };
    swallowing(&proxy, "PutItem", caller.acquire(&store)).await;
    let renewed = swallowing(&proxy, "UpdateItem", caller.renew(&store, 1)).await.unwrap();
    assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
    let finished = swallowing(&proxy, "UpdateItem", caller.complete(&store, "answer")).await;
    assert_eq!(finished.unwrap(), FinishOutcome::Done);
    assert_eq!(replayed(&store, &caller.key).await, "answer");
    for (name, release) in
        [("n", Release::NotStarted), ("f", Release::Failed), ("u", Release::Unknown)]
    {
        let caller = Caller::new(&key(name));
        caller.acquire(&store).await;
        let released = swallowing(&proxy, "UpdateItem", caller.release(&store, release)).await;
        assert_eq!(released.unwrap(), ReleaseOutcome::Released, "{release:?}");
    }
}

/// The same for the second write of a take-over.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_success_of_a_take_over_is_no_conflict_either() {
    let proxy = DynamoDbProxy::start(emulator().address()).await.unwrap();
    let store = impatient(&proxy).await;
    let first = Caller { lease: lease(1), ..Caller::new(&key("k")) };
    first.acquire(&store).await;
    until_abandoned(&store, &first.key).await;
    let second = Caller::new(&key("k"));
    let outcome = swallowing(&proxy, "PutItem", second.claim(&store)).await.unwrap();
    let ClaimOutcome::Acquired(acquired) = outcome else { panic!("{outcome:?}") };
    assert_eq!(acquired.attempt.get(), 2);
}

/// Every operation, refused by the service: an error with its kind and its effect, never an answer.
#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_is_taken_for_an_answer() {
    use ErrorKind::{Conflict, Denied, Invalid, Throttled, Unavailable, Unexpected};
    let cases = [
        (400, "ProvisionedThroughputExceededException", Throttled, Effect::None),
        (400, "ThrottlingException", Throttled, Effect::None),
        (400, "RequestLimitExceeded", Throttled, Effect::None),
        (400, "TransactionConflictException", Conflict, Effect::None),
        (400, "ResourceNotFoundException", Invalid, Effect::None),
        (400, "ValidationException", Invalid, Effect::None),
        (400, "ExpiredTokenException", Denied, Effect::None),
        (400, "UnrecognizedClientException", Denied, Effect::None),
        (400, "AccessDeniedException", Denied, Effect::None),
        (500, "InternalServerError", Unavailable, Effect::Unknown),
        (503, "ServiceUnavailable", Unavailable, Effect::Unknown),
        (502, "BadGateway", Unavailable, Effect::Unknown),
        (418, "Teapot", Unexpected, Effect::None),
    ];
    let (proxy, store) = proxied().await;
    let caller = Caller::new(&key("k"));
    caller.acquire(&store).await;
    let newcomer = Caller::new(&key("new"));
    for (status, code, kind, effect) in cases {
        proxy.set(Fault::Refuse(status, code));
        let found = store.lookup(&caller.key).await.unwrap_err();
        assert_eq!((found.kind(), found.effect()), (kind, Effect::None), "{code}: {found}");
        let errors = [
            newcomer.claim(&store).await.map(drop).unwrap_err(),
            caller.claim(&store).await.map(drop).unwrap_err(),
            caller.renew(&store, 1).await.map(drop).unwrap_err(),
            caller.complete(&store, "answer").await.map(drop).unwrap_err(),
            caller.release(&store, Release::Failed).await.map(drop).unwrap_err(),
        ];
        for error in errors {
            assert_eq!((error.kind(), error.effect()), (kind, effect), "{code}: {error}");
        }
    }
    proxy.set(Fault::None);
    assert!(store.lookup(&newcomer.key).await.unwrap().is_none());
    assert_eq!(caller.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
}

/// The service counts what the library cannot: a table's index, say. A put and an update say so in other
/// words.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_is_too_large_for_the_service_is_too_large() {
    let (proxy, store) = proxied().await;
    let caller = Caller::new(&key("k"));
    caller.acquire(&store).await;
    for message in [
        "Item size has exceeded the maximum allowed size",
        "Item size to update has exceeded the maximum allowed size",
    ] {
        proxy.set(Fault::RefuseSaying(400, "ValidationException", message));
        let errors = [
            Caller::new(&key("new")).claim(&store).await.map(drop).unwrap_err(),
            caller.renew(&store, 1).await.map(drop).unwrap_err(),
            caller.complete(&store, "answer").await.map(drop).unwrap_err(),
            caller.release(&store, Release::Failed).await.map(drop).unwrap_err(),
        ];
        for error in errors {
            let found = (error.kind(), error.effect());
            assert_eq!(found, (ErrorKind::TooLarge, Effect::None), "{message}: {error}");
        }
    }
    proxy.set(Fault::None);
    assert_eq!(caller.complete(&store, "smaller").await.unwrap(), FinishOutcome::Done);
    assert_eq!(replayed(&store, &caller.key).await, "smaller");
}

/// Kind of fault: no item taken for no record. Emulators before 2023, and `dynalite`, do not send the item
/// along with a refusal; then it is read.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_without_its_item_is_not_taken_for_an_absent_record() {
    let (proxy, store) = proxied().await;
    proxy.set(Fault::WithoutItem);
    let owner = Caller { lease: lease(60_000), ..Caller::new(&key("k")) };
    owner.acquire(&store).await;
    owner.acquire(&store).await;
    let other = Caller::new(&key("k"));
    let running = other.claim(&store).await.unwrap();
    assert!(matches!(running, ClaimOutcome::InProgress(_)), "{running:?}");
    // a shorter lease is not decided by the condition
    let brief = Caller { lease: lease(1_000), ..owner.clone() };
    let held = brief.renew(&store, 1).await.unwrap();
    assert!(matches!(held, RenewOutcome::Held { .. }), "{held:?}");
    assert_eq!(other.renew(&store, 1).await.unwrap(), RenewOutcome::Lost);
    assert_eq!(other.release(&store, Release::Failed).await.unwrap(), ReleaseOutcome::Lost);
    assert_eq!(other.complete(&store, "wrong").await.unwrap(), FinishOutcome::Lost);
    for _ in 0..2 {
        assert_eq!(owner.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
    }
    assert_eq!(replayed(&store, &owner.key).await, "answer");
    let gone = Caller::new(&key("gone"));
    assert_eq!(gone.renew(&store, 1).await.unwrap(), RenewOutcome::Lost);
    assert_eq!(gone.release(&store, Release::Failed).await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(gone.complete(&store, "answer").await.unwrap(), FinishOutcome::Restored);
}

/// What goes away by itself is sent again by the driver.
#[tokio::test(flavor = "multi_thread")]
async fn a_passing_trouble_is_not_noticed() {
    let (proxy, store) = proxied().await;
    for (status, code) in [
        (400, "ProvisionedThroughputExceededException"),
        (400, "ThrottlingException"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailable"),
    ] {
        let caller = Caller::new(&key(code));
        proxy.set(Fault::RefuseNext(2, status, code));
        caller.acquire(&store).await;
        proxy.set(Fault::RefuseNext(1, status, code));
        assert_eq!(caller.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
        assert!(proxy.is_well());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_is_an_error_that_says_what_to_do() {
    let store = DynamoDbStore::builder("nowhere").unwrap();
    let store = store.build(crate::support::fresh().await.client().clone());
    let error = Caller::new(&key("k")).claim(&store).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Invalid, Effect::None));
    assert!(error.to_string().contains("create=on"), "{error}");
}

/// Kind of fault: a hung server (H-59). The error comes within the time-out, and what may have happened is
/// not known; work begins again without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_never_answers_is_an_error_in_time() {
    let proxy = DynamoDbProxy::start(emulator().address()).await.unwrap();
    let store = builder(&unique_namespace()).timeout(Duration::from_secs(3));
    let store = store.endpoint(format!("http://{}", proxy.address())).connect().await.unwrap();
    let caller = Caller::new(&key("k"));
    proxy.set(Fault::Hang);
    let claimed = tokio::time::timeout(Duration::from_secs(10), caller.claim(&store)).await;
    let error = claimed.expect("an end").unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    let found = tokio::time::timeout(Duration::from_secs(10), store.lookup(&caller.key)).await;
    let error = found.expect("an end").unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::None));
    proxy.set(Fault::None);
    let outcome = soon("a claim after the outage", async || caller.claim(&store).await.ok()).await;
    assert!(matches!(outcome, ClaimOutcome::Acquired(_)), "{outcome:?}");
}

/// Kind of fault: fail open by default (H-59). Without a store nothing runs, unless that is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_without_the_store() {
    let (proxy, store) = proxied().await;
    let idempotency = Idempotency::builder(store.connected())
        .store_timeout(Duration::from_millis(300))
        .store_deadline(Duration::from_millis(600))
        .build()
        .unwrap();
    let runs = std::sync::atomic::AtomicU32::new(0);
    let run = async |name: &str| {
        let fingerprint = Fingerprint::of_bytes("the request");
        let key = key(name);
        let outcome = idempotency.run(&key, fingerprint, async |_| {
            runs.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok::<_, Never>("done".to_owned())
        });
        outcome.await
    };
    for fault in [
        Fault::Hang,
        Fault::Refuse(503, "ServiceUnavailable"),
        Fault::Refuse(400, "ThrottlingException"),
    ] {
        proxy.set(fault.clone());
        for round in 0..count(2, 20) {
            assert!(run(&format!("{fault:?}-{round}")).await.is_err(), "{fault:?}");
        }
    }
    assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), 0);
    proxy.set(Fault::None);
    let outcome = soon("work after the outage", async || run("after").await.ok()).await;
    assert!(matches!(outcome, Outcome::Executed(Ok(_))));
}
