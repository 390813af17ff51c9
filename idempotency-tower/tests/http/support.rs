//! A server on loopback, and a client that shows everything.

use std::{future::Future, net::SocketAddr, time::Duration};

use axum::Router;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use idempotency_core::{Clock, SystemClock};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// No single step of a test takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; it ends with the value.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { addr, task }
    }

    /// Sends on a connection of its own.
    pub(crate) async fn send(&self, call: Call) -> Reply {
        Connection::open(self.addr).await.send(call).await
    }

    /// Sends bytes as they are, and reads until the server closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut socket = TcpStream::connect(self.addr).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        within(socket.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request to be.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// A POST of the account `acme`.
pub(crate) fn post(path: &str) -> Call {
    Call {
        method: Method::POST,
        path: path.into(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{\"sku\":\"A\",\"qty\":1}"),
    }
    .header("authorization", "Bearer acme_1")
}

impl Call {
    pub(crate) fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    pub(crate) fn key(self, key: impl AsRef<[u8]>) -> Self {
        self.header("idempotency-key", key)
    }

    /// Adds a line.
    pub(crate) fn header(self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        self.named(HeaderName::from_static(name), value)
    }

    /// Adds a line.
    pub(crate) fn named(mut self, name: HeaderName, value: impl AsRef<[u8]>) -> Self {
        let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
        self.headers.append(name, value);
        self
    }

    pub(crate) fn token(mut self, token: &'static str) -> Self {
        let value = HeaderValue::from_static(token);
        self.headers.insert(header::AUTHORIZATION, value);
        self
    }

    pub(crate) fn anonymous(mut self) -> Self {
        self.headers.remove(header::AUTHORIZATION);
        self
    }

    pub(crate) fn body(self, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self { body, ..self }
    }

    fn request(self, authority: &str) -> Request<Full<Bytes>> {
        let uri = format!("http://{authority}{}", self.path);
        let mut request = Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = uri.parse().unwrap();
        *request.headers_mut() = self.headers;
        let host = HeaderValue::try_from(authority).unwrap();
        request.headers_mut().insert(header::HOST, host);
        request
    }
}

/// All of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn is_replay(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    /// All values of one header, in order.
    pub(crate) fn lines(&self, name: &str) -> Vec<Bytes> {
        let value = |value: &HeaderValue| Bytes::copy_from_slice(value.as_bytes());
        self.headers.get_all(name).iter().map(value).collect()
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    /// The last part of a problem's type, without its ending.
    pub(crate) fn problem(&self) -> &str {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        let (_, rest) = self.text().split_once("/problems/").unwrap();
        rest.split_once(".md").unwrap().0
    }

    /// Status and number of seconds in `Retry-After`.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        let value = self.headers.get(header::RETRY_AFTER)?;
        value.to_str().unwrap().parse().ok()
    }
}

/// One keep-alive connection.
pub(crate) enum Connection {
    Http1(conn::http1::SendRequest<Full<Bytes>>, String),
    Http2(conn::http2::SendRequest<Full<Bytes>>, String),
}

impl Connection {
    pub(crate) async fn open(addr: SocketAddr) -> Self {
        let socket = TokioIo::new(TcpStream::connect(addr).await.unwrap());
        let (sender, driver) = conn::http1::handshake(socket).await.unwrap();
        tokio::spawn(driver);
        Self::Http1(sender, addr.to_string())
    }

    pub(crate) async fn open_http2(addr: SocketAddr) -> Self {
        let socket = TokioIo::new(TcpStream::connect(addr).await.unwrap());
        let handshake = conn::http2::handshake(TokioExecutor::new(), socket);
        let (sender, driver) = handshake.await.unwrap();
        tokio::spawn(driver);
        Self::Http2(sender, addr.to_string())
    }

    /// The answer's head; its body is still to be read.
    pub(crate) async fn begin(&mut self, call: Call) -> Response<Incoming> {
        match self {
            Self::Http1(sender, host) => {
                within(sender.ready()).await.unwrap();
                within(sender.send_request(call.request(host))).await
            }
            Self::Http2(sender, host) => {
                within(sender.ready()).await.unwrap();
                within(sender.send_request(call.request(host))).await
            }
        }
        .unwrap()
    }

    pub(crate) async fn send(&mut self, call: Call) -> Reply {
        let (head, body) = self.begin(call).await.into_parts();
        let body = within(body.collect()).await.unwrap().to_bytes();
        Reply { status: head.status, headers: head.headers, body }
    }
}

/// Fails the test when `work` takes too long.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(PATIENCE, work).await;
    ended.expect("it takes too long")
}

/// Looks again and again until `condition` holds.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let clock = SystemClock::new();
    while !condition().await {
        assert!(clock.monotonic() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The tasks of this test's runtime.
pub(crate) fn alive_tasks() -> usize {
    let runtime = tokio::runtime::Handle::current();
    runtime.metrics().num_alive_tasks()
}

/// Rounds of a test that can go on for long: `short` by default, `long` with `IDEMPOTENCY_TEST=full`.
pub(crate) fn rounds(short: usize, long: usize) -> usize {
    match std::env::var("IDEMPOTENCY_TEST").as_deref() {
        Ok("full") => long,
        _ => short,
    }
}
