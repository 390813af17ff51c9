//! The layer inside and outside of layers that change or end requests.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::{self, Next},
    response::Response,
    routing::{any, post as on_post},
};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowOrigin, CorsLayer},
    timeout::TimeoutLayer,
};

use crate::{
    demo::{Runs, layer},
    support::{Server, eventually, post},
};

fn counting(runs: &Runs, time: Duration) -> axum::routing::MethodRouter {
    let runs = runs.clone();
    any(move || async move {
        tokio::time::sleep(time).await;
        runs.count().to_string()
    })
}

/// Kind of fault: a request that is given up by a time-out further out is dropped amid its work (H-43). It
/// is carried out, and a retry gets its answer.
#[tokio::test]
async fn a_time_out_outside_ends_the_waiting_not_the_request() {
    let runs = Runs::default();
    let time_out =
        TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_millis(100));
    let app = Router::new()
        .route("/", counting(&runs, Duration::from_millis(500)))
        .layer(layer())
        .layer(time_out);
    let server = Server::start(app).await;
    assert_eq!(server.send(post("/").key("k")).await.status, 504);
    let replayed = async || {
        let reply = server.send(post("/").key("k")).await;
        match reply.status.as_u16() {
            409 => false,
            _ => reply.is_replay() && reply.text() == "1",
        }
    };
    eventually("the answer is replayed", replayed).await;
    assert_eq!(runs.get(), 1);
}

/// What a layer further out makes of the body is the request: two spellings that it makes equal are one.
/// What one further in makes of it is not.
#[tokio::test]
async fn a_body_rewritten_outside_counts_as_rewritten_and_inside_as_sent() {
    async fn lower_case(request: Request, next: Next) -> Response {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_ascii_lowercase();
        head.headers.remove(header::CONTENT_LENGTH);
        next.run(Request::from_parts(head, Body::from(body))).await
    }
    let runs = Runs::default();
    let echo = || {
        let runs = runs.clone();
        let echo = move |body: String| async move {
            runs.count();
            body
        };
        Router::new().route("/", on_post(echo))
    };
    let rewrite = || middleware::from_fn(lower_case);
    let outside = Server::start(echo().layer(layer()).layer(rewrite())).await;
    assert_eq!(outside.send(post("/").key("k").body("PAY")).await.text(), "pay");
    assert!(outside.send(post("/").key("k").body("pay")).await.is_replay());
    let inside = Server::start(echo().layer(rewrite()).layer(layer())).await;
    assert_eq!(inside.send(post("/").key("k").body("PAY")).await.text(), "pay");
    assert_eq!(inside.send(post("/").key("k").body("pay")).await.problem(), "key-reused");
    assert!(inside.send(post("/").key("k").body("PAY")).await.is_replay());
    assert_eq!(runs.get(), 2);
}

/// Preflights pass, and what a browser may see is there on first answers, replays and refusals.
#[tokio::test]
async fn cors_outside_covers_preflights_replays_and_refusals() {
    let runs = Runs::default();
    let own = ["idempotent-replayed", "idempotency-expires", "retry-after"];
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::exact(HeaderValue::from_static("https://shop")))
        .allow_methods([Method::POST])
        .allow_headers([header::CONTENT_TYPE, HeaderName::from_static("idempotency-key")])
        .expose_headers(own.map(HeaderName::from_static));
    let app = Router::new()
        .route("/", counting(&runs, Duration::ZERO))
        .layer(layer().required())
        .layer(cors);
    let server = Server::start(app).await;
    let preflight = post("/")
        .method(Method::OPTIONS)
        .anonymous()
        .header("origin", "https://shop")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,idempotency-key");
    let reply = server.send(preflight).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.lines("access-control-allow-headers"), ["content-type,idempotency-key"]);
    assert_eq!(runs.get(), 0);
    let call = || post("/").header("origin", "https://shop");
    let answers = [
        server.send(call().key("k")).await,
        server.send(call().key("k")).await,
        server.send(call().key("k").body("else")).await,
        server.send(call()).await,
    ];
    assert_eq!(answers.each_ref().map(|a| a.status.as_u16()), [200, 200, 422, 400]);
    for answer in answers {
        assert_eq!(answer.lines("access-control-allow-origin"), ["https://shop"]);
        assert_eq!(answer.lines("access-control-expose-headers"), [own.join(",")]);
    }
}

/// Kind of fault: the key of a request that panicked is stuck (H-11). Panic catching at either side, in a
/// nested router.
#[tokio::test]
async fn panics_in_nested_routers_leave_the_key_to_the_next_attempt() {
    let outside = |inner: Router| inner.layer(layer()).layer(CatchPanicLayer::new());
    let inside = |inner: Router| inner.layer(CatchPanicLayer::new()).layer(layer());
    for place in [outside, inside] {
        let runs = Runs::default();
        let count = runs.clone();
        let panics = on_post(move || async move {
            assert!(count.count() > 1, "told to panic");
            "second"
        });
        let inner = place(Router::new().route("/pay", panics));
        let server = Server::start(Router::new().nest("/v1", inner)).await;
        assert_eq!(server.send(post("/v1/pay").key("k")).await.status, 500);
        assert_eq!(server.send(post("/v1/pay").key("k")).await.text(), "second");
        assert!(server.send(post("/v1/pay").key("k")).await.is_replay());
        assert_eq!(runs.get(), 2);
    }
}
