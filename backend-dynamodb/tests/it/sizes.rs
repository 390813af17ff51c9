//! Items of 400 KB.

use bytes::Bytes;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    Effect, ErrorKind, Fingerprint, FinishOutcome, Idempotency, IdempotencyKey, IdempotencyStore,
    Namespace, Never, Outcome,
};
use idempotency_dynamodb::aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};

use crate::support::{Caller, TABLE, builder, connect, emulator, fresh, item, key, put, replayed};

fn bytes(length: usize) -> Bytes {
    (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_up_to_the_limit_come_back_and_larger_ones_are_refused_before_they_are_sent() {
    let store = fresh().await;
    let most = store.profile().max_response_bytes;
    assert!((400_000..409_600).contains(&most), "{most}");
    for length in [300 * 1_024, 350 * 1_024, 399_000, most - 1, most] {
        let caller = Caller::new(&key(length));
        caller.acquire(&store).await;
        let response = bytes(length);
        assert_eq!(caller.complete(&store, response.clone()).await.unwrap(), FinishOutcome::Done);
        assert_eq!(replayed(&store, &caller.key).await, response, "{length}");
    }
    for length in [most + 1, 400 * 1_024, 401 * 1_024] {
        let caller = Caller::new(&key(length));
        caller.acquire(&store).await;
        let error = caller.complete(&store, bytes(length)).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::TooLarge, Effect::None), "{error}");
        assert_eq!(caller.complete(&store, "smaller").await.unwrap(), FinishOutcome::Done);
    }
}

/// The longest key that there can be: every byte of scope and key takes three in a storage key.
fn longest_key() -> IdempotencyKey {
    let part = "é".repeat(127) + "%";
    IdempotencyKey::new(part.as_str(), &part).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_response_fits_beside_the_longest_key() {
    let namespace =
        Namespace::new(format!("suite-{}", "n".repeat(40) + &fastrand::u64(..).to_string()))
            .unwrap_or_else(|_| unique_namespace());
    let store = connect(emulator().address(), &namespace).await;
    let caller = Caller::new(&longest_key());
    caller.acquire(&store).await;
    let response = bytes(store.profile().max_response_bytes);
    assert_eq!(caller.complete(&store, response.clone()).await.unwrap(), FinishOutcome::Done);
    assert_eq!(replayed(&store, &caller.key).await, response);

    // the limit is the service's: what is left beside this record is what its numbers have in hand
    let place = namespace.storage_key(&caller.key);
    let mut stored = item(&store, TABLE, place.as_str()).await.unwrap();
    let most_left = 32;
    stored.insert("more".to_owned(), AttributeValue::B(Blob::new(vec![0; most_left])));
    let larger = store.client().put_item().table_name(TABLE).set_item(Some(stored.clone())).send();
    assert!(larger.await.is_err(), "more than {most_left} bytes are left unused");
    stored.remove("more");
    put(&store, TABLE, stored).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_checkpoint_fits_beside_the_longest_key() {
    let builder = builder(&unique_namespace()).max_checkpoint_bytes(usize::MAX);
    let store = builder.endpoint(emulator().endpoint()).connect().await.unwrap();
    let caller = Caller::new(&longest_key());
    caller.acquire(&store).await;
    let request = |length| idempotency_core::RenewRequest {
        key: &caller.key,
        token: caller.token,
        attempt: caller.attempt,
        sequence: std::num::NonZeroU64::MIN,
        lease: caller.lease,
        checkpoint: Some(bytes(length)),
    };
    let most = store.profile().max_checkpoint_bytes;
    let error = store.renew(request(most + 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::TooLarge, Effect::None), "{error}");
    let held = store.renew(request(most)).await.unwrap();
    assert!(matches!(held, idempotency_core::RenewOutcome::Held { .. }), "{held:?}");
    // the answer takes the checkpoint's room
    let response = bytes(store.profile().max_response_bytes);
    assert_eq!(caller.complete(&store, response).await.unwrap(), FinishOutcome::Done);
}

/// The work was done: a retry is told so, and does not do it again.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_becomes_the_fact_that_it_is_done() {
    let idempotency = Idempotency::new(fresh().await.connected());
    let run = async || {
        let fingerprint = Fingerprint::of_bytes("the request");
        let work = async |_| Ok::<_, Never>("x".repeat(401 * 1_024));
        idempotency.run(&key("large"), fingerprint, work).await.unwrap()
    };
    assert!(matches!(run().await, Outcome::Executed(Ok(answer)) if answer.len() == 401 * 1_024));
    let again = run().await;
    assert!(matches!(again, Outcome::NotKept(_)), "done, not kept");
}
