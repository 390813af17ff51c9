//! Answers byte by byte, one after the other on one connection, as a client library would hide it.

use std::fmt::Write;

use axum::{
    Router,
    body::Body,
    response::IntoResponse,
    routing::{any, post as on_post},
};
use bytes::Bytes;
use futures_util::stream;
use http::{StatusCode, header};

use crate::{
    demo::layer,
    support::{Server, post},
};

/// One answer, as it came.
#[derive(Debug)]
struct Raw {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Raw {
    fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} twice");
        value
    }
}

/// Takes the bytes up to `end`, and `end` away.
fn until<'b>(bytes: &mut &'b [u8], end: &[u8]) -> &'b [u8] {
    let at = bytes.windows(end.len()).position(|window| window == end).expect("it goes on");
    let taken = &bytes[..at];
    *bytes = &bytes[at + end.len()..];
    taken
}

/// Reads one answer by the rules of RFC 9112, and leaves what follows it.
fn parse(bytes: &mut &[u8], to_head: bool) -> Raw {
    let head = str::from_utf8(until(bytes, b"\r\n\r\n")).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").expect("an answer begins here");
    let status = status[..3].parse().unwrap();
    let split = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let mut raw = Raw { status, headers: lines.map(split).collect(), body: Vec::new() };
    let length = raw.header("content-length").map(|length| length.parse::<usize>().unwrap());
    let chunked = raw.header("transfer-encoding").is_some_and(|coding| coding == "chunked");
    assert!(length.is_none() || !chunked, "length and chunks: {raw:?}");
    if to_head || status == 204 || status == 304 {
        assert!(!chunked || status == 200, "{raw:?}");
    } else if let Some(length) = length {
        raw.body = bytes[..length].to_vec();
        *bytes = &bytes[length..];
    } else {
        assert!(chunked, "no end: {raw:?}");
        loop {
            let size = usize::from_str_radix(str::from_utf8(until(bytes, b"\r\n")).unwrap(), 16);
            let size = size.unwrap();
            raw.body.extend_from_slice(&bytes[..size]);
            *bytes = &bytes[size..];
            assert_eq!(until(bytes, b"\r\n"), b"");
            if size == 0 {
                break;
            }
        }
    }
    raw
}

fn chunked() -> Body {
    let chunks = ["a", "b"].map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
    Body::from_stream(stream::iter(chunks))
}

/// Kind of fault: length and framing of a replay do not fit what is sent, and the next answer on the
/// connection is read as a part of it (H-37).
#[tokio::test]
async fn every_answer_ends_where_its_head_says() {
    let app = Router::new()
        .route("/fixed", any(|| async { "fixed" }))
        .route("/empty", any(|| async { "" }))
        .route("/chunked", any(|| async { chunked() }))
        .route("/no-content", any(|| async { StatusCode::NO_CONTENT }))
        .route("/not-modified", any(|| async { (StatusCode::NOT_MODIFIED, [("etag", "\"1\"")]) }))
        .route_layer(layer());
    let server = Server::start(app).await;
    let paths = ["/fixed", "/no-content", "/chunked", "/not-modified", "/empty"];
    let mut requests = String::new();
    for path in paths {
        for method in ["POST", "POST", "HEAD"] {
            write!(
                requests,
                "{method} {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer acme\r\n\
                 Idempotency-Key: {path}\r\nContent-Length: 0\r\n\r\n"
            )
            .unwrap();
        }
    }
    requests.push_str("GET /fixed HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let answers = server.raw(requests.as_bytes()).await;
    let mut rest = answers.as_bytes();
    for path in paths {
        let [first, second, head] = [false, false, true].map(|to_head| parse(&mut rest, to_head));
        assert_eq!((second.status, &second.body), (first.status, &first.body), "{path}");
        assert_eq!(second.header("idempotent-replayed"), Some("true"), "{path}");
        assert_eq!(first.header("idempotent-replayed"), None, "{path}");
        assert_eq!(head.header("idempotent-replayed"), None, "a safe method passes");
        assert_eq!(head.status, first.status, "{path}");
        assert_eq!(second.header("etag"), first.header("etag"), "{path}");
    }
    let last = parse(&mut rest, false);
    assert_eq!((last.body.as_slice(), rest), (&b"fixed"[..], &b""[..]));
}

/// Kind of fault: an answer of the handler that looks like a refusal of the layer is changed into one.
#[tokio::test]
async fn the_handlers_own_refusals_are_its_own() {
    fn own(status: StatusCode) -> impl IntoResponse {
        let kind = [(header::CONTENT_TYPE, "application/problem+json"), (header::RETRY_AFTER, "7")];
        (status, kind, "{\"type\":\"about:blank\",\"own\":true}")
    }
    let statuses = [400, 401, 408, 409, 410, 413, 422, 429, 500, 503];
    let mut app = Router::new();
    for status in statuses {
        let status_code = StatusCode::from_u16(status).unwrap();
        app = app.route(&format!("/{status}"), on_post(async move || own(status_code)));
    }
    let server = Server::start(app.route_layer(layer())).await;
    for status in statuses {
        let path = format!("/{status}");
        for call in [post(&path), post(&path).key(&path), post(&path).key(&path)] {
            let reply = server.send(call).await;
            assert_eq!((reply.status.as_u16(), reply.retry_after()), (status, Some(7)));
            assert_eq!(reply.text(), "{\"type\":\"about:blank\",\"own\":true}");
        }
    }
}
