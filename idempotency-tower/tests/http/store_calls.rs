//! How often the store is asked.

use axum::{Router, routing::post as on_post};
use http::StatusCode;
use idempotency_tower::{IdempotencyLayer, Profile};

use crate::{
    demo::account,
    faulty_store::{FaultyStore, Mood},
    support::{Server, post},
};

/// Two round trips for a request that runs, one for any other with a key, none without.
#[tokio::test]
async fn a_first_request_asks_the_store_twice_a_repetition_once() {
    let store = FaultyStore::new(Mood::Well);
    let app = Router::new()
        .route("/", on_post(|| async { StatusCode::CREATED }))
        .route("/fails", on_post(|| async { StatusCode::SERVICE_UNAVAILABLE }))
        .route_layer(IdempotencyLayer::new(store.clone(), account));
    let server = Server::start(app).await;
    let cases = [
        ("a first request", post("/").key("k"), 2),
        ("a repetition", post("/").key("k"), 1),
        ("another request", post("/").key("k").body("{}"), 1),
        ("one that fails", post("/fails").key("f"), 2),
        ("one that fails again", post("/fails").key("f"), 2),
        ("no key", post("/"), 0),
        ("a bad key", post("/").key(""), 0),
        ("a safe method", post("/").key("k").method(http::Method::GET), 0),
    ];
    for (what, call, asked) in cases {
        let before = store.calls();
        server.send(call).await;
        assert_eq!(store.calls() - before, asked, "{what}");
    }
}

/// The same with a key in the body.
#[tokio::test]
async fn looking_for_a_key_in_the_body_asks_no_store() {
    let store = FaultyStore::new(Mood::Well);
    let layer = IdempotencyLayer::new(store.clone(), account).profile(Profile::aws());
    let app = Router::new().route("/", on_post(|| async { "ran" })).route_layer(layer);
    let server = Server::start(app).await;
    for (body, asked) in [("{}", 0), (r#"{"ClientToken":"k"}"#, 2), (r#"{"ClientToken":"k"}"#, 1)] {
        let before = store.calls();
        assert_eq!(server.send(post("/").body(body)).await.text(), "ran");
        assert_eq!(store.calls() - before, asked, "{body}");
    }
}
