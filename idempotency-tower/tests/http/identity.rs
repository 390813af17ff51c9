//! Whose key it is, and which request it stands for.

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    response::Response,
    routing::post as on_post,
};
use http::{HeaderName, Method, StatusCode, Uri, header};
use idempotency_core::Scope;
use idempotency_memory::MemoryStore;
use idempotency_tower::{ComparedBody, IdempotencyLayer, Profile};

use crate::{
    demo::{Runs, account, layer},
    support::{Server, post},
};

fn counting(runs: &Runs) -> axum::routing::MethodRouter {
    let runs = runs.clone();
    axum::routing::any(move || {
        let number = runs.count();
        async move { (StatusCode::CREATED, number.to_string()) }
    })
}

/// Kind of fault: one tenant's key opens another tenant's answer (H-33).
#[tokio::test]
async fn two_accounts_never_meet_under_one_key() {
    let runs = Runs::default();
    let app = Router::new().route("/", counting(&runs)).route_layer(layer());
    let server = Server::start(app).await;
    let acme = post("/").token("Bearer acme").key("k");
    let other = post("/").token("Bearer other").key("k");
    assert_eq!(server.send(acme.clone()).await.text(), "1");
    assert_eq!(server.send(other.clone().body("else")).await.text(), "2");
    assert_eq!(server.send(acme).await.text(), "1");
    assert_eq!(server.send(other.clone()).await.problem(), "key-reused");
    assert_eq!(server.send(other.body("else")).await.text(), "2");
    let nobody = server.send(post("/").anonymous().key("k")).await;
    assert_eq!((nobody.status.as_u16(), nobody.problem()), (401, "no-principal"));
    assert_eq!(runs.get(), 2);
}

/// Kind of fault: a new token is a new owner, so a retry after its rotation runs again (H-34).
#[tokio::test]
async fn a_rotated_token_finds_its_accounts_keys() {
    let runs = Runs::default();
    let app = Router::new().route("/", counting(&runs)).route_layer(layer());
    let server = Server::start(app).await;
    let first = server.send(post("/").token("Bearer acme_1").key("k")).await;
    let second = server.send(post("/").token("Bearer acme_2").key("k")).await;
    assert!(second.is_replay());
    assert_eq!((first.body, runs.get()), (second.body, 1));
}

#[tokio::test]
async fn a_global_scope_is_there_for_whoever_asks_for_it() {
    let runs = Runs::default();
    let layer = IdempotencyLayer::new(MemoryStore::new(), |_| Some(Scope::global()));
    let app = Router::new().route("/", counting(&runs)).route_layer(layer);
    let server = Server::start(app).await;
    server.send(post("/").anonymous().key("k")).await;
    assert!(server.send(post("/").key("k")).await.is_replay());
}

/// Kind of fault: what makes another request is left out of the comparison (H-25): a dry run's
/// answer for the real request.
#[tokio::test]
async fn method_path_query_body_and_chosen_headers_make_the_request() {
    let runs = Runs::default();
    let layer = layer().fingerprint_headers([HeaderName::from_static("x-version")]);
    let app =
        Router::new().route("/a", counting(&runs)).route("/b", counting(&runs)).route_layer(layer);
    let server = Server::start(app).await;
    let call = || post("/a").key("k").header("x-version", "1");
    assert_eq!(server.send(call()).await.status, 201);
    let others = [
        call().method(Method::PUT),
        post("/b").key("k").header("x-version", "1"),
        post("/a?").key("k").header("x-version", "1"),
        post("/a?dry=1").key("k").header("x-version", "1"),
        call().body(""),
        post("/a").key("k").header("x-version", "2"),
        post("/a").key("k"),
    ];
    for other in others {
        assert_eq!(server.send(other.clone()).await.problem(), "key-reused", "{other:?}");
    }
    assert!(server.send(call().header("x-other", "1")).await.is_replay());
    assert_eq!(runs.get(), 1);
}

/// Kind of fault: a client that writes its JSON in another order each time is refused (H-24). A profile may
/// compare what it says, and bytes where it is no JSON.
#[tokio::test]
async fn a_body_may_be_compared_by_what_its_json_says() {
    let runs = Runs::default();
    let mut profile = Profile::ietf();
    profile.compared_body = ComparedBody::Json;
    let app = Router::new().route("/", counting(&runs)).route_layer(layer().profile(profile));
    let server = Server::start(app).await;
    let call = |key: &str, body: &'static str| post("/").key(key).body(body);
    server.send(call("json", r#"{"a":1,"b":[2,3]}"#)).await;
    assert!(server.send(call("json", r#"{ "b": [2, 3], "a": 1 }"#)).await.is_replay());
    for other in [r#"{"a":1,"b":[3,2]}"#, r#"{"a":1.0,"b":[2,3]}"#, "no json", ""] {
        assert_eq!(server.send(call("json", other)).await.problem(), "key-reused", "{other}");
    }
    server.send(call("text", "a=1")).await;
    assert!(server.send(call("text", "a=1")).await.is_replay());
    assert_eq!(server.send(call("text", "a=2")).await.problem(), "key-reused");
    assert_eq!(runs.get(), 2);
}

/// Kind of fault: key and fingerprint are taken again after inner layers have changed the request, so
/// the answer lands where nobody looks (H-16).
#[tokio::test]
async fn inner_layers_may_change_all_of_the_request() {
    async fn rewrite(mut request: Request, next: Next) -> Response {
        *request.method_mut() = Method::PATCH;
        *request.uri_mut() = Uri::from_static("/elsewhere");
        request.headers_mut().remove("idempotency-key");
        request.headers_mut().remove(header::AUTHORIZATION);
        *request.body_mut() = "other".into();
        request.extensions_mut().clear();
        next.run(request).await
    }
    let runs = Runs::default();
    let store = MemoryStore::new();
    let app = Router::new()
        .route("/", counting(&runs))
        .route_layer(middleware::from_fn(rewrite))
        .route_layer(IdempotencyLayer::new(store.clone(), account));
    let server = Server::start(app).await;
    assert_eq!(server.send(post("/").key("k")).await.text(), "1");
    let second = server.send(post("/").key("k")).await;
    assert_eq!((second.text(), second.is_replay()), ("1", true));
    assert_eq!((runs.get(), store.len()), (1, 1));
}

/// Kind of fault: two mounts of one router see the same stripped path (DESIGN 6). Both inside and
/// outside of the nesting the path is the one that the client sent.
#[tokio::test]
async fn two_nested_routers_never_share_an_answer() {
    let runs = Runs::default();
    let layer = layer();
    let inner = Router::new().route("/pay", counting(&runs)).route_layer(layer.clone());
    let bare = Router::new().route("/pay", counting(&runs));
    let app = Router::new()
        .nest("/v1", inner.clone())
        .nest("/v2", inner)
        .merge(Router::new().nest("/v3", bare).layer(layer));
    let server = Server::start(app).await;
    assert_eq!(server.send(post("/v1/pay").key("k")).await.text(), "1");
    assert_eq!(server.send(post("/v2/pay").key("k")).await.problem(), "key-reused");
    assert_eq!(server.send(post("/v3/pay").key("k")).await.problem(), "key-reused");
    assert!(server.send(post("/v1/pay").key("k")).await.is_replay());
    assert_eq!(runs.get(), 1);
}

/// Kind of fault: each mounted layer has records of its own (H-60). Clones of a layer, and layers over
/// clones of a store, share theirs.
#[tokio::test]
async fn all_layers_over_one_store_share_its_records() {
    let runs = Runs::default();
    let store = MemoryStore::new();
    let mount = || {
        let layer = IdempotencyLayer::new(store.clone(), account);
        Router::new()
            .route("/", on_post(|| async { "x" }))
            .route("/count", counting(&runs))
            .route_layer(layer.clone())
    };
    let (here, there) = (Server::start(mount()).await, Server::start(mount()).await);
    assert_eq!(here.send(post("/count").key("k")).await.text(), "1");
    assert!(there.send(post("/count").key("k")).await.is_replay());
    let alone = Router::new().route("/count", counting(&runs)).route_layer(layer());
    let alone = Server::start(alone).await;
    assert!(!alone.send(post("/count").key("k")).await.is_replay());
}
