//! How much memory uploads and streams take: of a server that is a process of its own.

use std::{net::SocketAddr, process::Stdio};

use axum::{Router, body::Body, routing::post as on_post};
use bytes::Bytes;
use futures_util::{StreamExt, future::join_all, stream};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

use crate::{
    demo::layer,
    support::{Connection, post, rounds, within},
};

const LIMIT: usize = 64 * 1024;
const CLIENTS: usize = 50;
const MIB: u64 = 1 << 20;
const ASKED_FOR: &str = "IDEMPOTENCY_TEST_SERVER";

/// Not a test: the process that the others look at. It ends with its input.
#[tokio::test]
#[ignore = "the server of the other tests here, which start it"]
async fn server_process() {
    if std::env::var_os(ASKED_FOR).is_none() {
        return;
    }
    let endless = || async {
        let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
        Body::from_stream(stream::repeat(chunk).map(Ok::<_, std::io::Error>))
    };
    let layer = layer().max_request_bytes(LIMIT).max_response_bytes(LIMIT);
    let app = Router::new()
        .route("/", on_post(async |body: Bytes| body.len().to_string()))
        .route("/endless", on_post(endless))
        .route_layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on {}", listener.local_addr().unwrap());
    let mut input = Vec::new();
    tokio::select! {
        served = axum::serve(listener, app) => served.unwrap(),
        ended = async { tokio::io::stdin().read_to_end(&mut input).await } => assert!(ended.is_ok()),
    }
}

struct Process {
    addr: SocketAddr,
    child: Child,
}

impl Process {
    async fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory::server_process", "--ignored", "--nocapture"])
            .env(ASKED_FOR, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addr = loop {
            let line = within(lines.next_line()).await.unwrap().expect("it says where it listens");
            if let Some((_, addr)) = line.split_once("listening on ") {
                break addr.parse().unwrap();
            }
        };
        Self { addr, child }
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id().unwrap())
    }

    /// Begins to look for the peak anew, and says what is used now.
    fn begin(&self) -> u64 {
        std::fs::write(self.proc("clear_refs"), "5").unwrap();
        self.peak()
    }

    /// The most memory it had, in bytes.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(self.proc("status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024
    }
}

/// Sends `bytes` in chunks, as far as the server takes them.
async fn upload(addr: SocketAddr, key: &str, bytes: usize) {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer acme\r\nIdempotency-Key: {key}\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let chunk = [b"4000\r\n", &[b'x'; 0x4000][..], b"\r\n"].concat();
    let sending = async {
        for _ in 0..bytes / 0x4000 {
            if socket.write_all(&chunk).await.is_err() {
                break;
            }
        }
    };
    within(sending).await;
}

/// Kind of fault: memory that grows with what clients send (H-42). 800 MiB come in, 64 KiB each are kept
/// at most, and twice that while they grow; the rest is for the buffers of the connections.
#[tokio::test]
async fn memory_does_not_grow_with_uploads_over_the_limit() {
    let server = Process::start().await;
    upload(server.addr, "warm-up", 16 << 20).await;
    let before = server.begin();
    join_all((0..CLIENTS).map(async |n| upload(server.addr, &format!("k{n}"), 16 << 20).await))
        .await;
    let grown = server.peak() - before;
    assert!(grown < 64 * MIB, "{} MiB", grown / MIB);
}

/// Kind of fault: memory that grows with an answer that never ends (H-41). The full run reads 10 GiB.
#[tokio::test]
async fn memory_does_not_grow_with_endless_answers() {
    let server = Process::start().await;
    let download = async |key: String, bytes: usize| {
        let mut connection = Connection::open(server.addr).await;
        let mut body = connection.begin(post("/endless").key(key)).await.into_body();
        let mut received = 0;
        while received < bytes {
            let frame = within(body.frame()).await.unwrap().unwrap();
            received += frame.into_data().unwrap().len();
        }
    };
    download("warm-up".into(), 1 << 20).await;
    let before = server.begin();
    let bytes = rounds(32 << 20, 1 << 30);
    join_all((0..CLIENTS / 5).map(|n| download(format!("k{n}"), bytes))).await;
    let grown = server.peak() - before;
    assert!(grown < 32 * MIB, "{} MiB", grown / MIB);
}
