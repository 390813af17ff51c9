//! The request body on its way to the handler.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{DefaultBodyLimit, Request},
    routing::post as on_post,
};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use idempotency_memory::MemoryStore;
use idempotency_tower::IdempotencyLayer;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    demo::{Runs, account, layer},
    support::{Server, eventually, post, within},
};

/// Says what arrived.
async fn describe(request: Request) -> String {
    let (head, body) = request.into_parts();
    let collected = body.collect().await.unwrap();
    let trailer = collected.trailers().and_then(|t| t.get("x-sum")).cloned();
    let bytes = collected.to_bytes();
    let show = |name| head.headers.get(name).map(|v| v.to_str().unwrap().to_owned());
    format!(
        "{:?} {:?} {} {} {trailer:?}",
        show(header::CONTENT_TYPE),
        show(header::CONTENT_LENGTH),
        bytes.len(),
        bytes.iter().fold(0_u64, |sum, b| sum.wrapping_mul(31) + u64::from(*b)),
    )
}

fn describing(layer: IdempotencyLayer) -> Router {
    Router::new()
        .route("/", on_post(describe))
        .layer(DefaultBodyLimit::disable())
        .route_layer(layer.max_request_bytes(16 << 20))
}

/// Kind of fault: the layer eats the body (H-42). The handler sees the same with a key and without.
#[tokio::test]
async fn the_handler_sees_the_same_body_with_and_without_a_key() {
    let server = Server::start(describing(layer())).await;
    let multipart = b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n";
    let bodies: [(&str, Vec<u8>); 5] = [
        ("application/json", b"{\"a\":1}".to_vec()),
        ("application/x-www-form-urlencoded", b"a=1&b=2".to_vec()),
        ("multipart/form-data; boundary=b", multipart.to_vec()),
        ("text/plain", Vec::new()),
        ("application/octet-stream", (0..10 << 20).map(|i: u32| i.to_le_bytes()[0]).collect()),
    ];
    for (number, (kind, body)) in bodies.into_iter().enumerate() {
        let call = post("/").header("content-type", kind).body(body);
        let without = server.send(call.clone()).await;
        let with = server.send(call.clone().key(format!("k{number}"))).await;
        assert_eq!((with.status.as_u16(), with.text()), (200, without.text()));
        let again = server.send(call.key(format!("k{number}"))).await;
        assert!(again.is_replay() && again.body == with.body);
    }
}

/// The same for bodies without a length, with trailers, and for clients that ask before they send.
#[tokio::test]
async fn chunked_bodies_trailers_and_expectations_arrive() {
    let server = Server::start(describing(layer())).await;
    let head = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer acme\r\n\
                Content-Type: text/plain\r\n";
    let chunks = "Transfer-Encoding: chunked\r\nTrailer: x-sum\r\nTE: trailers\r\n\r\n\
                  3\r\nabc\r\n2\r\nde\r\n0\r\nx-sum: 5\r\n\r\n";
    let expecting = "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nabcde";
    for (number, rest) in [chunks, expecting].into_iter().enumerate() {
        let without = server.raw(format!("{head}{rest}").as_bytes()).await;
        let key = format!("Idempotency-Key: k{number}\r\n");
        let with = server.raw(format!("{head}{key}{rest}").as_bytes()).await;
        let last = |answer: &str| answer.lines().last().unwrap().to_owned();
        assert_eq!(last(&with), last(&without));
        assert!(last(&with).contains(" 5 "), "{with}");
        assert_eq!(with.contains("100 Continue"), rest == expecting, "{with}");
        let again = server.raw(format!("{head}{key}{rest}").as_bytes()).await;
        assert!(again.contains("idempotent-replayed: true"), "{again}");
        assert_eq!(last(&again), last(&with));
    }
    assert!(
        server.raw(format!("{head}{chunks}").as_bytes()).await.contains("\"5\""),
        "the trailer arrives"
    );
}

/// Without a key nothing is held: the handler answers before the body has ended.
#[tokio::test]
async fn without_a_key_the_body_is_not_buffered() {
    async fn first_frame(body: Body) -> String {
        let mut body = body;
        let frame = body.frame().await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    }
    let app = Router::new().route("/", on_post(first_frame)).route_layer(layer());
    let server = Server::start(app).await;
    let mut socket = TcpStream::connect(server.addr).await.unwrap();
    let open = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    socket.write_all(open.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"abc") {
        let read = tokio::io::AsyncReadExt::read_buf(&mut socket, &mut answer);
        assert_ne!(within(read).await.unwrap(), 0);
    }
}

/// Kind of fault: unbounded memory, and a key that a refused request has used up (H-20, H-42).
#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_anything_is_claimed() {
    let runs = Runs::default();
    let count = runs.clone();
    let handler = on_post(move |body: Body| async move {
        count.count();
        to_bytes(body, usize::MAX).await.unwrap().len().to_string()
    });
    let store = MemoryStore::new();
    let layer = IdempotencyLayer::new(store.clone(), account).max_request_bytes(1_000);
    let server = Server::start(Router::new().route("/", handler).route_layer(layer)).await;
    let reply = server.send(post("/").key("k").body(vec![b'x'; 1_001])).await;
    assert_eq!((reply.status.as_u16(), reply.problem()), (413, "body-too-large"));
    // a length that is not told is found out
    let head = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer acme\r\n\
                Idempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("{head}3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1_001));
    assert!(server.raw(chunk.as_bytes()).await.starts_with("HTTP/1.1 413"));
    assert_eq!((runs.get(), store.len()), (0, 0));
    let reply = server.send(post("/").key("k").body(vec![b'x'; 1_000])).await;
    assert_eq!((reply.text(), runs.get()), ("1000", 1));
    // without a key the limit is not ours
    let reply = server.send(post("/").body(vec![b'x'; 1_001])).await;
    assert_eq!(reply.text(), "1001");
}

/// Kind of fault: half a request claims the key (H-42).
#[tokio::test]
async fn an_upload_that_breaks_off_leaves_no_record() {
    let runs = Runs::default();
    let count = runs.clone();
    let handler = on_post(move |_: HeaderMap| {
        count.count();
        async { "done" }
    });
    let store = MemoryStore::new();
    let layer = IdempotencyLayer::new(store.clone(), account);
    let app = Router::new().route("/", handler).route_layer(layer.clone());
    let server = Server::start(app).await;
    let mut socket = TcpStream::connect(server.addr).await.unwrap();
    let half = "POST / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer acme\r\nIdempotency-Key: k\r\n\
                Content-Length: 100\r\n\r\nhalf";
    socket.write_all(half.as_bytes()).await.unwrap();
    eventually("the upload begins", async || layer.in_flight() == 1).await;
    drop(socket);
    eventually("the upload ends", async || layer.in_flight() == 0).await;
    assert_eq!((store.len(), runs.get()), (0, 0));
    assert!(!server.send(post("/").key("k")).await.is_replay());
    // a slow one is one request all the same
    let mut socket = TcpStream::connect(server.addr).await.unwrap();
    let slow = "POST / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer acme\r\nConnection: close\r\n\
                Idempotency-Key: slow\r\nContent-Length: 4\r\n\r\n";
    for byte in slow.bytes().chain(*b"slow").collect::<Vec<_>>().chunks(40) {
        socket.write_all(byte).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut answer = String::new();
    let read = tokio::io::AsyncReadExt::read_to_string(&mut socket, &mut answer);
    within(read).await.unwrap();
    assert!(answer.ends_with("done"), "{answer}");
}
