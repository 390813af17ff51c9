//! The layer among other layers, around other services, and at the end of the process.

use std::{
    convert::Infallible,
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Body, routing::post as on_post};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody};
use idempotency_core::Attempt;
use idempotency_tower::{HttpBody, IdempotencyLayer};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::{
    compression::CompressionLayer,
    cors::{AllowOrigin, CorsLayer},
};

use crate::{
    demo::{Runs, account, layer},
    support::{Server, eventually, post, within},
};

fn request<B>(key: &str, body: B) -> Request<B> {
    Request::post("/c")
        .header("authorization", "Bearer acme")
        .header("idempotency-key", key)
        .body(body)
        .unwrap()
}

/// A service that takes any request body.
#[tokio::test]
async fn it_wraps_body_generic_services() {
    let echo = service_fn(|request: Request<HttpBody<Full<Bytes>>>| async move {
        let attempt = request.extensions().get::<Attempt>().unwrap().number();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let answer = [body, Bytes::from(attempt.to_string())].concat();
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answer))))
    });
    let mut service = ServiceBuilder::new().layer(layer()).service(echo);
    for is_replay in [false, true] {
        let call = request("k", Full::new(Bytes::from_static(b"q")));
        let response = service.ready().await.unwrap().call(call).await.unwrap();
        assert_eq!(response.headers().contains_key("idempotent-replayed"), is_replay);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "q1");
    }
}

/// A service that takes one body type gets it with `map_request`, and trailers are kept.
#[tokio::test]
async fn it_wraps_services_of_one_body_type() {
    let concrete = service_fn(|request: Request<Body>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let frames = [http_body::Frame::data(body), http_body::Frame::trailers(trailers)];
        let frames = futures_util::stream::iter(frames.map(Ok::<_, Infallible>));
        Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
    });
    let mut service = ServiceBuilder::new()
        .layer(layer())
        .map_request(|request: Request<HttpBody<Body>>| request.map(Body::new))
        .service(concrete);
    for is_replay in [false, true] {
        let call = request("k", Body::from("q"));
        let response = service.ready().await.unwrap().call(call).await.unwrap();
        assert_eq!(response.headers().contains_key("idempotent-replayed"), is_replay);
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(body.to_bytes(), "q");
    }
}

/// Kind of fault: a panic or an error that the layer swallows. Layers further out still see them.
#[tokio::test]
async fn panics_and_errors_reach_the_caller() {
    let failing = service_fn(|request: Request<HttpBody<Body>>| async move {
        assert!(request.uri().path() != "/panic", "told to panic");
        Err::<Response<Body>, _>("failed")
    });
    let mut service = ServiceBuilder::new().layer(layer()).service(failing);
    let call = service.ready().await.unwrap().call(request("k", Body::empty()));
    assert_eq!(call.await.unwrap_err(), "failed");
    let mut panicking = request("p", Body::empty());
    *panicking.uri_mut() = "/panic".parse().unwrap();
    let call = service.ready().await.unwrap().call(panicking);
    let panic = tokio::spawn(call).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"told to panic"));
}

/// Compression outside makes each answer anew; inside, its bytes are stored with their encoding. CORS
/// outside answers preflights and adds its headers to replays too.
#[tokio::test]
async fn compression_and_cors_work_around_it() {
    let text = "compress me ".repeat(100);
    let handler = || {
        let text = text.clone();
        Router::new().route("/", on_post(move || async move { text }))
    };
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::exact(HeaderValue::from_static("https://shop")))
        .allow_methods([Method::POST])
        .allow_headers([HeaderName::from_static("idempotency-key")])
        .expose_headers([HeaderName::from_static("idempotent-replayed")]);
    let outside = handler().layer(layer()).layer(CompressionLayer::new()).layer(cors);
    let inside = handler().layer(CompressionLayer::new()).layer(layer());
    for app in [outside, inside] {
        let server = Server::start(app).await;
        let call = post("/").key("k").header("accept-encoding", "gzip");
        let first = server.send(call.clone().header("origin", "https://shop")).await;
        let second = server.send(call.header("origin", "https://shop")).await;
        assert!(second.is_replay());
        assert_eq!(second.lines("content-encoding"), ["gzip"]);
        assert_eq!(second.body, first.body);
        for name in ["access-control-allow-origin", "access-control-expose-headers"] {
            assert_eq!(second.lines(name), first.lines(name));
        }
    }
}

/// Kind of fault: a layer that is put on twice, on a route and on its router, meets its own claim and
/// refuses every request. The outer one does the work.
#[tokio::test]
async fn put_on_twice_it_works_once() {
    let runs = Runs::default();
    let count = runs.clone();
    let handler = on_post(move || async move { count.count().to_string() });
    let layer = layer().required();
    let app = Router::new()
        .route("/", handler.layer(layer.clone()))
        .route_layer(layer.clone())
        .layer(layer);
    let server = Server::start(app).await;
    assert_eq!(server.send(post("/").key("k")).await.text(), "1");
    let second = server.send(post("/").key("k")).await;
    assert_eq!((second.text(), second.is_replay(), runs.get()), ("1", true, 1));
}

/// More requests than the cap are refused with nothing done.
#[tokio::test]
async fn requests_over_the_cap_are_refused() {
    let runs = Runs::default();
    let count = runs.clone();
    let handler = on_post(move || async move {
        count.count();
        tokio::time::sleep(Duration::from_millis(300)).await;
    });
    let layer = layer().max_in_flight(2);
    let app = Router::new().route("/", handler).route_layer(layer.clone());
    let server = Server::start(app).await;
    let slow = async |key: &'static str| server.send(post("/").key(key)).await.status;
    let refused = async {
        eventually("two are under way", async || runs.get() == 2).await;
        let reply = server.send(post("/").key("c")).await;
        assert_eq!((reply.status.as_u16(), reply.problem()), (503, "overloaded"));
        assert_eq!(reply.retry_after(), Some(1));
        assert_eq!(server.send(post("/")).await.status, 200, "without a key it passes");
    };
    let (a, b, ()) = tokio::join!(slow("a"), slow("b"), refused);
    assert_eq!((a, b, runs.get()), (StatusCode::OK, StatusCode::OK, 3));
    eventually("none is under way", async || layer.in_flight() == 0).await;
    assert_eq!(slow("c").await, 200);
}

/// Kind of fault: a shutdown that forgets requests whose client has gone (H-43). Draining waits for
/// them; what comes later is sent elsewhere.
#[tokio::test]
async fn draining_waits_for_all_that_has_begun() {
    let runs = Runs::default();
    let count = runs.clone();
    let handler = on_post(move || async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        count.count();
    });
    let layer = layer();
    let app = Router::new().route("/", handler).route_layer(layer.clone());
    let server = Server::start(app).await;
    let leaving = tokio::time::timeout(Duration::from_millis(100), server.send(post("/").key("k")));
    assert!(leaving.await.is_err());
    assert_eq!((layer.in_flight(), runs.get()), (1, 0));
    within(layer.drain()).await;
    assert_eq!((layer.in_flight(), runs.get()), (0, 1));
    let late = server.send(post("/").key("k")).await;
    assert_eq!((late.status.as_u16(), late.problem()), (503, "shutting-down"));
}

/// Kind of fault: a client that never ends its upload keeps the process from ending (H-43). It has begun
/// nothing, and is told so.
#[tokio::test]
async fn draining_does_not_wait_for_bodies_that_are_still_to_come() {
    let layer = layer();
    let app = Router::new().route("/", on_post(async || "done")).route_layer(layer.clone());
    let server = Server::start(app).await;
    let half = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer acme\r\n\
                Idempotency-Key: k\r\nContent-Length: 100\r\n\r\nhalf";
    let drain = async {
        eventually("the upload begins", async || layer.in_flight() == 1).await;
        within(layer.drain()).await;
    };
    let (answer, ()) = tokio::join!(server.raw(half.as_bytes()), drain);
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("shutting-down"), "{answer}");
}

/// Where a subscriber writes.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Kind of fault: keys in logs, errors and `Debug`. Spans of the caller reach the handler's task.
#[tokio::test]
async fn keys_are_never_shown_and_spans_reach_the_handler() {
    use tracing::Instrument;
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // while there is only one subscriber, whichever thread meets an event first decides for all whether
    // it is wanted, and the other tests' threads have none
    let _second =
        tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(std::io::sink).finish());
    let _guard = tracing::subscriber::set_default(subscriber);
    let handler = service_fn(|request: Request<HttpBody<Body>>| async move {
        let attempt = request.extensions().get::<Attempt>().cloned();
        tracing::info!(?attempt, "handled");
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let layer: IdempotencyLayer = layer();
    let mut service = ServiceBuilder::new().layer(layer.clone()).service(handler);
    for key in ["secret-key", "secret-key", "secret-\u{e9}"] {
        let span = tracing::info_span!("outer", marker = 42);
        let call = service.ready().await.unwrap().call(request(key, Body::empty()));
        let response = call.instrument(span).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(!body.windows(6).any(|w| w == b"secret"));
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("outer{marker=42}") && log.contains("handled"), "{log}");
    let shown = format!("{layer:?} {service:?} {log}");
    assert!(!shown.contains("secret") && !shown.contains("acme"), "{shown}");
}

#[test]
fn the_scope_function_sees_what_authentication_left() {
    let (mut parts, ()) = Request::new(()).into_parts();
    assert_eq!(account(&parts), None);
    let token = HeaderValue::from_static("Bearer acme_2");
    parts.headers.insert(header::AUTHORIZATION, token);
    assert_eq!(account(&parts).unwrap().name(), Some("acme"));
}
