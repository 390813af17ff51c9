//! Answers with trailers, over real sockets.

use axum::{Router, body::Body, response::IntoResponse, routing::post as on_post};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use crate::{
    demo::layer,
    support::{Connection, Server, post, within},
};

/// Two chunks, and their sum behind them.
async fn summed() -> impl IntoResponse {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("5"));
    let frames = [
        Frame::data(Bytes::from("abc")),
        Frame::data(Bytes::from("de")),
        Frame::trailers(trailers),
    ];
    let frames = stream::iter(frames.map(Ok::<_, std::io::Error>));
    ([(header::TRAILER, "x-sum")], Body::new(StreamBody::new(frames)))
}

fn app() -> Router {
    Router::new().route("/", on_post(summed)).route_layer(layer())
}

/// Kind of fault: an answer that is held gets a length, and then HTTP/1.1 has no place for what follows it
/// (H-37). Byte by byte, as a client library would hide it.
#[tokio::test]
async fn trailers_arrive_over_http1_and_are_replayed() {
    let server = Server::start(app()).await;
    let request = |key: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: h\r\nConnection: close, TE\r\nTE: trailers\r\n\
             Authorization: Bearer acme\r\n{key}Content-Length: 0\r\n\r\n"
        )
    };
    let bare = server.raw(request("").as_bytes()).await;
    let key = "Idempotency-Key: k\r\n";
    let first = server.raw(request(key).as_bytes()).await;
    let second = server.raw(request(key).as_bytes()).await;
    for answer in [&bare, &first, &second] {
        assert!(answer.contains("transfer-encoding: chunked\r\n"), "{answer}");
        assert!(!answer.contains("content-length"), "{answer}");
        assert!(answer.ends_with("0\r\nx-sum: 5\r\n\r\n"), "{answer}");
    }
    assert!(first.contains("\r\n\r\n5\r\nabcde\r\n0\r\n"), "{first}");
    assert!(!first.contains("idempotent-replayed") && second.contains("idempotent-replayed"));
    // whoever did not ask for trailers gets none, and a body that ends
    let plain = server.send(post("/").key("plain")).await;
    assert_eq!(plain.text(), "abcde");
    assert_eq!(server.send(post("/").key("plain")).await.text(), "abcde");
}

#[tokio::test]
async fn trailers_arrive_over_http2_and_are_replayed() {
    let server = Server::start(app()).await;
    let mut connection = Connection::open_http2(server.addr).await;
    for is_replay in [false, true] {
        let response = connection.begin(post("/").key("k")).await;
        assert_eq!(response.headers().contains_key("idempotent-replayed"), is_replay);
        let body = within(response.into_body().collect()).await.unwrap();
        assert_eq!(body.trailers().unwrap()["x-sum"], "5");
        assert_eq!(body.to_bytes(), "abcde");
    }
}
