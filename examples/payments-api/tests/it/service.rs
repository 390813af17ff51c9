//! The service as a child process, and a client for it.

use std::{
    net::SocketAddr,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStdout, Command},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// A running service; it is killed with the value.
pub(crate) struct Service {
    pub(crate) addr: SocketAddr,
    pub(crate) greeting: String,
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

fn command(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_payments-api"));
    command
        .args(["--listen", "127.0.0.1:0"])
        .args(options)
        .env_remove("WEBHOOK_SECRET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

impl Service {
    pub(crate) async fn start(options: &[&str]) -> Self {
        let mut child = command(options).stderr(Stdio::null()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut greeting = String::new();
        while !greeting.contains("/ledger") {
            let line = within(output.next_line()).await.unwrap().expect("it starts");
            greeting = format!("{greeting}{line}\n");
        }
        let (_, rest) = greeting.split_once("http://").unwrap();
        let addr = rest.split_once(',').unwrap().0.parse().unwrap();
        Self { addr, greeting, child, output }
    }

    /// What it says when it does not start.
    pub(crate) async fn refused(options: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_payments-api"));
        command.args(options).env_remove("WEBHOOK_SECRET").stdin(Stdio::null()).kill_on_drop(true);
        let ended = within(command.output()).await.unwrap();
        assert!(!ended.status.success());
        String::from_utf8(ended.stderr).unwrap()
    }

    pub(crate) async fn send(&self, call: Call) -> Reply {
        try_send(self.addr, call).await.expect("an answer")
    }

    /// The ledger.
    pub(crate) async fn effects(&self) -> Vec<Value> {
        let ledger = self.send(charge("").get("/ledger")).await.json();
        ledger["effects"].as_array().unwrap().clone()
    }

    /// The ids in the ledger, in order.
    pub(crate) async fn charges(&self) -> Vec<String> {
        let effects = self.effects().await.into_iter();
        let mut ids: Vec<_> = effects.map(|e| e["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    }

    pub(crate) fn terminate(&self) {
        let pid = self.child.id().unwrap().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Ends it on the spot.
    pub(crate) async fn kill(mut self) {
        within(self.child.kill()).await.unwrap();
    }

    /// Asks it to end, once more each time.
    pub(crate) fn has_ended_when_asked(&mut self) -> bool {
        self.terminate();
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; the rest of what it wrote.
    pub(crate) async fn ended(&mut self) -> (ExitStatus, String) {
        let status = within(self.child.wait()).await.unwrap();
        let mut rest = String::new();
        self.output.get_mut().read_to_string(&mut rest).await.unwrap();
        (status, rest)
    }
}

/// Sends; none when the service is gone before the answer is whole.
pub(crate) async fn try_send(addr: SocketAddr, call: Call) -> Option<Reply> {
    let socket = TokioIo::new(within(TcpStream::connect(addr)).await.ok()?);
    let (mut sender, driver) = hyper::client::conn::http1::handshake(socket).await.ok()?;
    tokio::spawn(driver);
    let (head, body) = within(sender.send_request(call.request())).await.ok()?.into_parts();
    let body = within(body.collect()).await.ok()?.to_bytes();
    Some(Reply { status: head.status, headers: head.headers, body })
}

/// A request to be.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    order: Value,
    body: Option<String>,
}

/// A charge of the account `acme`.
pub(crate) fn charge(source: &str) -> Call {
    let order = json!({ "amount": 500, "currency": "eur", "source": source, "customer": "cus_1" });
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let (method, path) = (Method::POST, "/v1/charges".to_owned());
    Call { method, path, headers, order, body: None }.token("sk_test_acme")
}

impl Call {
    pub(crate) fn key(mut self, key: impl AsRef<str>) -> Self {
        let name = HeaderName::from_static("idempotency-key");
        self.headers.insert(name, key.as_ref().parse().unwrap());
        self
    }

    pub(crate) fn token(mut self, token: &str) -> Self {
        let value = format!("Bearer {token}").parse().unwrap();
        self.headers.insert(header::AUTHORIZATION, value);
        self
    }

    pub(crate) fn anonymous(mut self) -> Self {
        self.headers.remove(header::AUTHORIZATION);
        self
    }

    pub(crate) fn customer(mut self, customer: &str) -> Self {
        self.order["customer"] = customer.into();
        self
    }

    pub(crate) fn path(self, path: &str) -> Self {
        Self { path: path.into(), ..self }
    }

    pub(crate) fn get(self, path: &str) -> Self {
        Self { method: Method::GET, ..self.path(path) }
    }

    pub(crate) fn body(self, body: &str) -> Self {
        Self { body: Some(body.into()), ..self }
    }

    pub(crate) fn body_text(&self) -> String {
        self.body.clone().unwrap_or_else(|| self.order.to_string())
    }

    fn request(self) -> Request<Full<Bytes>> {
        let body = self.body_text();
        let body = if self.method == Method::GET { String::new() } else { body };
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path.parse().unwrap();
        *request.headers_mut() = self.headers;
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
        request
    }
}

/// All of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn is_replay(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<HeaderValue> {
        self.headers.get_all(name).iter().cloned().collect()
    }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it takes too long")
}

/// Looks again and again until `condition` holds.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "never: {what}");
}
