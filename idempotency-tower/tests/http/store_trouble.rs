//! The store does not answer, or not with what was stored.

use std::time::Duration;

use axum::{Router, routing::post as on_post};
use http::StatusCode;
use idempotency_core::{
    ErrorKind, Fingerprint, Idempotency, IdempotencyKey, Lease, Never, OnStoreFailure, Outcome,
    Retention,
};
use idempotency_memory::MemoryStore;
use idempotency_tower::IdempotencyLayer;

use crate::{
    demo::{Runs, account},
    faulty_store::{FaultyStore, Mood},
    support::{Server, eventually, post, within},
};

fn executor(store: &FaultyStore) -> idempotency_core::IdempotencyBuilder {
    Idempotency::builder(store.clone())
        .store_timeout(Duration::from_millis(50))
        .store_deadline(Duration::from_millis(100))
}

fn app(runs: &Runs, layer: IdempotencyLayer) -> Router {
    let runs = runs.clone();
    let handler = on_post(move || async move {
        let number = runs.count();
        (StatusCode::CREATED, number.to_string())
    });
    Router::new().route("/", handler).route_layer(layer)
}

/// Kind of fault: without its store the service goes on unprotected (H-59). It refuses in time, with
/// nothing done, and recovers by itself.
#[tokio::test]
async fn without_its_store_nothing_runs() {
    let runs = Runs::default();
    let store = FaultyStore::new(Mood::Well);
    let layer = IdempotencyLayer::new(executor(&store).build().unwrap(), account);
    let server = Server::start(app(&runs, layer)).await;
    for mood in [
        Mood::Fails(ErrorKind::Unavailable),
        Mood::Fails(ErrorKind::Throttled),
        Mood::Fails(ErrorKind::Full),
        Mood::Fails(ErrorKind::Denied),
        Mood::Hangs,
    ] {
        store.becomes(mood);
        let reply = server.send(post("/").key("k")).await;
        assert_eq!((reply.status.as_u16(), reply.problem()), (503, "store-unavailable"));
        assert_eq!(reply.retry_after(), Some(1), "{mood:?}");
    }
    store.becomes(Mood::Fails(ErrorKind::Corrupt));
    let reply = server.send(post("/").key("k")).await;
    assert_eq!((reply.status.as_u16(), reply.problem()), (500, "record-unreadable"));
    assert_eq!(runs.get(), 0);
    store.becomes(Mood::Well);
    assert_eq!(server.send(post("/").key("k")).await.text(), "1");
}

/// Going on without protection is for those who ask for it.
#[tokio::test]
async fn fail_open_runs_unprotected_when_it_is_asked_for() {
    let runs = Runs::default();
    let store = FaultyStore::new(Mood::Fails(ErrorKind::Unavailable));
    let open = executor(&store).on_store_failure(OnStoreFailure::FailOpen);
    let layer = IdempotencyLayer::new(open.build().unwrap(), account);
    let server = Server::start(app(&runs, layer)).await;
    for number in ["1", "2"] {
        let reply = server.send(post("/").key("k")).await;
        assert_eq!((reply.status.as_u16(), reply.text()), (201, number));
        assert!(!reply.headers.contains_key("idempotency-expires"));
    }
}

/// Kind of fault: the effect is there and its answer is lost when storing is slow (H-10, H-13). The
/// client has its answer after `store_wait`; the store is waited for beyond that.
#[tokio::test]
async fn an_answer_that_is_slow_to_store_is_sent_and_stored() {
    let runs = Runs::default();
    let store = FaultyStore::new(Mood::CompletesAfter(Duration::from_millis(600)));
    let layer = IdempotencyLayer::new(store.clone(), account).store_wait(Duration::from_millis(50));
    let server = Server::start(app(&runs, layer.clone())).await;
    let first = server.send(post("/").key("k")).await;
    assert_eq!((first.status.as_u16(), first.text()), (201, "1"));
    assert!(!first.headers.contains_key("idempotency-expires"));
    let second = server.send(post("/").key("k")).await;
    assert_eq!(second.problem(), "in-progress");
    assert_eq!(layer.in_flight(), 1);
    within(layer.drain()).await;
    let again = IdempotencyLayer::new(store, account);
    let server = Server::start(app(&runs, again)).await;
    assert!(server.send(post("/").key("k")).await.is_replay());
    assert_eq!(runs.get(), 1);
}

/// Kind of fault: a failed save is answered by freeing the key (H-14). It is left to its lease, and the
/// next attempt is told.
#[tokio::test]
async fn an_answer_that_cannot_be_stored_leaves_the_key_to_its_lease() {
    let runs = Runs::default();
    let store = FaultyStore::new(Mood::CompletesAfter(Duration::from_mins(1)));
    let lease = Lease::new(Duration::from_millis(600)).unwrap();
    let short = executor(&store).lease(lease).build().unwrap();
    let layer = IdempotencyLayer::new(short, account);
    let server = Server::start(app(&runs, layer)).await;
    assert_eq!(server.send(post("/").key("k")).await.status, 201);
    store.becomes(Mood::Well);
    let retried = async || {
        let reply = server.send(post("/").key("k")).await;
        assert!([201, 409].contains(&reply.status.as_u16()), "{reply:?}");
        reply.is_replay()
    };
    eventually("a replay of the second attempt", retried).await;
    assert_eq!(runs.get(), 2);
}

/// Kind of fault: foreign content under the key is taken for an answer (H-22): here a value that
/// another door of the library stored.
#[tokio::test]
async fn a_record_that_is_no_response_is_an_error_and_nothing_runs() {
    let runs = Runs::default();
    let idempotency = Idempotency::new(MemoryStore::new());
    let key = IdempotencyKey::new("acme", "k").unwrap();
    let fingerprint =
        Fingerprint::builder().part("method", "POST").part("path", "/").part("body", "{}").finish();
    let stored = idempotency.run(&key, fingerprint, async |_| Ok::<_, Never>(1)).await;
    assert!(matches!(stored, Ok(Outcome::Executed(Ok(1)))));
    let server = Server::start(app(&runs, IdempotencyLayer::new(idempotency, account))).await;
    let reply = server.send(post("/").key("k").body("{}")).await;
    assert_eq!((reply.status.as_u16(), reply.problem()), (500, "record-unreadable"));
    assert_eq!(runs.get(), 0);
}

/// A key is free again after its retention, and a retention never ends before the lease.
#[tokio::test]
async fn after_its_retention_a_key_runs_again() {
    let runs = Runs::default();
    let lease = Lease::new(Duration::from_millis(300)).unwrap();
    let store = FaultyStore::new(Mood::Well);
    let short = Idempotency::builder(store).lease(lease).build().unwrap();
    let retention = Retention::new(Duration::from_millis(1)).unwrap();
    let layer = IdempotencyLayer::new(short, account).retention(retention);
    let server = Server::start(app(&runs, layer)).await;
    assert_eq!(server.send(post("/").key("k")).await.text(), "1");
    assert!(server.send(post("/").key("k")).await.is_replay());
    let fresh = async || server.send(post("/").key("k")).await.text() == "2";
    eventually("the key runs again", fresh).await;
}
