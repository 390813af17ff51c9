//! The completion as an item of the application's own transaction.

use idempotency_core::{
    Answer, Begun, ClaimGuard, Effect, ErrorKind, Fingerprint, FinishOutcome, Idempotency,
    IdempotencyStore, Lease, Release, SeenClaim, SettleOutcome, Settlement, StoreAdmin,
};
use idempotency_dynamodb::{
    DynamoDbStore, TransactionError, TransactionReply,
    aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem},
};
use test_servers::dynamodb::{DynamoDbProxy, Fault};

use crate::support::{
    Caller, TABLE, builder, connect, emulator, fresh, key, lease, replayed, until_abandoned,
};

fn own_key(name: &str) -> String {
    format!("a charge: {name} {}", fastrand::u64(..))
}

/// A charge of the application's own, which must not be there.
fn charge(place: &str) -> TransactWriteItem {
    let put = Put::builder()
        .table_name(TABLE)
        .item("pk", AttributeValue::S(place.to_owned()))
        .item("amount", AttributeValue::N("500".to_owned()))
        .condition_expression("attribute_not_exists(pk)")
        .build();
    TransactWriteItem::builder().put(put.unwrap()).build()
}

async fn is_charged(store: &DynamoDbStore, place: &str) -> bool {
    crate::support::item(store, TABLE, place).await.is_some()
}

async fn send(store: &DynamoDbStore, items: Vec<TransactWriteItem>) -> TransactionReply {
    store.client().transact_write_items().set_transact_items(Some(items)).send().await
}

async fn begin(idempotency: &Idempotency, name: &str) -> ClaimGuard {
    match idempotency.begin(&key(name), Fingerprint::of_bytes("the request")).await.unwrap() {
        Begun::Acquired(guard) => guard,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_charge_and_the_answer_are_there_together() {
    let store = fresh().await;
    let idempotency = Idempotency::new(store.connected());
    let claim = begin(&idempotency, "k").await.detach().await.unwrap();
    let answer = Answer::bytes("charged");
    let place = own_key("together");
    let completion = store.completion(&claim, answer.clone()).unwrap();
    let reply = send(&store, vec![charge(&place), completion]).await;
    let outcome = store.transaction_outcome(&claim, 1, &reply).unwrap();
    assert_eq!(outcome, FinishOutcome::Done);
    let _told = claim.finished(outcome, &answer);
    assert!(is_charged(&store, &place).await);
    let begun = idempotency.begin(&key("k"), Fingerprint::of_bytes("the request")).await.unwrap();
    assert!(matches!(begun, Begun::Replayed(_)), "{begun:?}");
}

/// A claim that somebody took over, gave back or lost cancels the whole transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_does_not_hold_rolls_the_charge_back() {
    let store = fresh().await;
    for name in ["taken over", "released", "completed", "gone"] {
        let caller = Caller { lease: lease(1), ..Caller::new(&key(name)) };
        match name {
            "taken over" => {
                caller.acquire(&store).await;
                until_abandoned(&store, &caller.key).await;
                Caller::new(&caller.key).acquire(&store).await;
            }
            "released" => {
                caller.acquire(&store).await;
                let _released = caller.release(&store, Release::Unknown).await.unwrap();
            }
            "completed" => {
                let other = Caller::new(&caller.key);
                other.acquire(&store).await;
                let _done = other.complete(&store, "by somebody else").await.unwrap();
            }
            _ => {}
        }
        let place = own_key(name);
        let completion = store.completion_of(&caller.completion("charged")).unwrap();
        let reply = send(&store, vec![completion, charge(&place)]).await;
        let claim = SeenClaim { token: caller.token, attempt: caller.attempt };
        let outcome = store.transaction_outcome_of(&caller.key, claim, 0, &reply).unwrap();
        assert_eq!(outcome, FinishOutcome::Lost, "{name}");
        assert!(!is_charged(&store, &place).await, "{name}");
    }
}

/// The lease may be over as long as nobody took over (C13).
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_lease_is_over_still_commits() {
    let store = fresh().await;
    let caller = Caller { lease: lease(1), ..Caller::new(&key("k")) };
    caller.acquire(&store).await;
    until_abandoned(&store, &caller.key).await;
    let place = own_key("late");
    let completion = store.completion_of(&caller.completion("charged")).unwrap();
    let reply = send(&store, vec![completion, charge(&place)]).await;
    let claim = SeenClaim { token: caller.token, attempt: caller.attempt };
    let outcome = store.transaction_outcome_of(&caller.key, claim, 0, &reply).unwrap();
    assert_eq!(outcome, FinishOutcome::Done);
    assert!(is_charged(&store, &place).await);
    assert_eq!(replayed(&store, &caller.key).await, "charged");
}

/// Kind of fault: own lost success looks like a conflict (H-50). The same items sent again as another
/// transaction meet their own first try.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_committed_before_is_recognised() {
    let store = fresh().await;
    let caller = Caller::new(&key("k"));
    caller.acquire(&store).await;
    let claim = SeenClaim { token: caller.token, attempt: caller.attempt };
    let place = own_key("again");
    let items =
        || vec![charge(&place), store.completion_of(&caller.completion("charged")).unwrap()];
    for _ in 0..2 {
        let reply = send(&store, items()).await;
        let outcome = store.transaction_outcome_of(&caller.key, claim, 1, &reply).unwrap();
        assert_eq!(outcome, FinishOutcome::Done);
    }
}

/// Kind of fault: told that it is done when it is not. An operator, or another part of the program, has stored an
/// answer for the attempt: its token and its number are those of the transaction, which has not been committed.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_no_transaction_stored_is_no_commit() {
    let store = fresh().await;
    for by_operator in [true, false] {
        let caller = Caller { lease: lease(1), ..Caller::new(&key(by_operator)) };
        caller.acquire(&store).await;
        let claim = SeenClaim { token: caller.token, attempt: caller.attempt };
        if by_operator {
            until_abandoned(&store, &caller.key).await;
            // the very answer that the transaction would store
            let (response, retention) = ("charged".into(), caller.retention);
            let settlement = Settlement::Completed { response, retention };
            let settled = store.settle(&caller.key, claim, settlement).await.unwrap();
            assert_eq!(settled, SettleOutcome::Settled);
        } else {
            let done = caller.complete(&store, "charged").await.unwrap();
            assert_eq!(done, FinishOutcome::Done);
        }
        let place = own_key("settled");
        let completion = store.completion_of(&caller.completion("charged")).unwrap();
        let reply = send(&store, vec![charge(&place), completion]).await;
        let outcome = store.transaction_outcome_of(&caller.key, claim, 1, &reply).unwrap();
        assert_eq!(outcome, FinishOutcome::Lost, "by an operator: {by_operator}");
        assert!(!is_charged(&store, &place).await);
        assert_eq!(replayed(&store, &caller.key).await, "charged");
    }
}

/// A damaged record is told as such (C00), and stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_cancels_the_transaction() {
    let namespace = idempotency_conformance::unique_namespace();
    let store = connect(emulator().address(), &namespace).await;
    let caller = Caller::new(&key("k"));
    caller.acquire(&store).await;
    let claim = SeenClaim { token: caller.token, attempt: caller.attempt };
    let record = namespace.storage_key(&caller.key);
    let mut damaged = crate::support::item(&store, TABLE, record.as_str()).await.unwrap();
    damaged.insert("claimed_at_ms".to_owned(), AttributeValue::N("-1".to_owned()));
    crate::support::put(&store, TABLE, damaged.clone()).await;
    let place = own_key("damaged");
    let completion = store.completion_of(&caller.completion("charged")).unwrap();
    let reply = send(&store, vec![charge(&place), completion]).await;
    let failed = store.transaction_outcome_of(&caller.key, claim, 1, &reply);
    let Err(TransactionError::Store(error)) = failed else { panic!("{failed:?}") };
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Corrupt, Effect::None), "{error}");
    assert!(!is_charged(&store, &place).await);
    assert_eq!(crate::support::item(&store, TABLE, record.as_str()).await, Some(damaged));
}

/// A condition of the application's own is the application's affair, and the claim still holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_condition_of_the_applications_own_leaves_the_claim() {
    let store = fresh().await;
    let caller = Caller::new(&key("k"));
    caller.acquire(&store).await;
    let claim = SeenClaim { token: caller.token, attempt: caller.attempt };
    let place = own_key("twice");
    let _first = send(&store, vec![charge(&place)]).await.unwrap();
    let completion = store.completion_of(&caller.completion("charged")).unwrap();
    let reply = send(&store, vec![charge(&place), completion]).await;
    let refused = store.transaction_outcome_of(&caller.key, claim, 1, &reply);
    let Err(TransactionError::Refused(reasons)) = refused else { panic!("{refused:?}") };
    assert_eq!(reasons[0].code(), Some("ConditionalCheckFailed"));
    assert_eq!(caller.complete(&store, "declined").await.unwrap(), FinishOutcome::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_service_is_an_error_of_unknown_effect() {
    let proxy = DynamoDbProxy::start(emulator().address()).await.unwrap();
    let namespace = idempotency_conformance::unique_namespace();
    let store = connect(proxy.address(), &namespace).await;
    let caller = Caller { lease: Lease::DEFAULT, ..Caller::new(&key("k")) };
    caller.acquire(&store).await;
    let claim = SeenClaim { token: caller.token, attempt: caller.attempt };
    for (status, code, kind) in [
        (500, "InternalServerError", ErrorKind::Unavailable),
        (400, "TransactionInProgressException", ErrorKind::Conflict),
        (400, "ThrottlingException", ErrorKind::Throttled),
    ] {
        proxy.set(Fault::Refuse(status, code));
        let completion = store.completion_of(&caller.completion("charged")).unwrap();
        let reply = send(&store, vec![completion]).await;
        let failed = store.transaction_outcome_of(&caller.key, claim, 0, &reply);
        let Err(TransactionError::Store(error)) = failed else { panic!("{failed:?}") };
        assert_eq!((error.kind(), error.effect()), (kind, Effect::Unknown), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_is_refused_before_anything_is_sent() {
    let store = builder(&idempotency_conformance::unique_namespace()).max_response_bytes(100);
    let store = store.endpoint(emulator().endpoint()).connect().await.unwrap();
    let error = store.completion_of(&Caller::new(&key("k")).completion(vec![7; 101])).unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::TooLarge, Effect::None));
    assert_eq!(store.profile().max_response_bytes, 100);
}
