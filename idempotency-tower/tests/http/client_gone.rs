//! Clients that do not wait for their answer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, routing::post as on_post};
use futures_util::future::join_all;
use idempotency_tower::{CurrentAttempt, IdempotencyLayer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    demo::layer,
    support::{Connection, Server, alive_tasks, eventually, post, rounds, within},
};

/// Effects per key.
#[derive(Clone, Debug, Default)]
struct Ledger(Arc<Mutex<HashMap<String, usize>>>);

impl Ledger {
    fn effects(&self, key: &str) -> usize {
        self.0.lock().unwrap().get(key).copied().unwrap_or_default()
    }
}

/// Has its effect after half of the time, and answers after all of it.
fn slow(ledger: &Ledger, time: Duration) -> Router {
    let ledger = ledger.clone();
    let handler = move |attempt: CurrentAttempt| async move {
        tokio::time::sleep(time / 2).await;
        let key = attempt.key().key().to_owned();
        *ledger.0.lock().unwrap().entry(key).or_default() += 1;
        tokio::time::sleep(time / 2).await;
        format!("attempt {}", attempt.number())
    };
    Router::new().route("/", on_post(handler))
}

fn raw(key: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer acme\r\nIdempotency-Key: {key}\r\n\
         Content-Length: 19\r\n\r\n{{\"sku\":\"A\",\"qty\":1}}"
    )
}

async fn replayed(server: &Server, key: &str) -> bool {
    let reply = server.send(post("/").key(key)).await;
    assert!([200, 409].contains(&reply.status.as_u16()), "{reply:?}");
    reply.is_replay()
}

/// Kind of fault: the handler is dropped where it stands when its client goes away (H-43). It runs on
/// and its answer is stored.
#[tokio::test]
async fn a_handler_runs_on_when_its_client_goes_away() {
    let ledger = Ledger::default();
    let app = slow(&ledger, Duration::from_secs(1)).route_layer(layer());
    let server = Server::start(app).await;
    let gone_after = async |key: &str, after: u64| {
        let mut socket = TcpStream::connect(server.addr).await.unwrap();
        socket.write_all(raw(key).as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(after)).await;
        drop(socket);
        let retry = server.send(post("/").key(key)).await;
        assert_eq!((retry.status.as_u16(), retry.problem()), (409, "in-progress"));
        assert_eq!(retry.retry_after(), Some(1));
        eventually("a replay", async || replayed(&server, key).await).await;
        assert_eq!(ledger.effects(key), 1);
    };
    let reset_http2 = async |key: &str| {
        let mut connection = Connection::open_http2(server.addr).await;
        let call = connection.begin(post("/").key(key));
        let cut = tokio::time::timeout(Duration::from_millis(100), call);
        assert!(cut.await.is_err(), "the stream is reset before its answer");
        eventually("a replay", async || replayed(&server, key).await).await;
        assert_eq!(ledger.effects(key), 1);
    };
    tokio::join!(gone_after("a", 50), gone_after("b", 600), reset_http2("http2"));
}

/// A client that closes only its own direction still wants the answer, and may get it.
#[tokio::test]
async fn a_half_closed_connection_changes_nothing() {
    let ledger = Ledger::default();
    let app = slow(&ledger, Duration::from_millis(200)).route_layer(layer());
    let server = Server::start(app).await;
    let mut socket = TcpStream::connect(server.addr).await.unwrap();
    socket.write_all(raw("k").as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = String::new();
    within(socket.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.is_empty() || answer.ends_with("attempt 1"), "{answer}");
    eventually("a replay", async || replayed(&server, "k").await).await;
    assert_eq!(ledger.effects("k"), 1);
}

/// Kind of fault: clients that leave at any moment, by closing or by resetting, double effects, block keys
/// or leak tasks (H-43, H-08). Afterwards each key replays its answer, or runs for whoever asks. The full run has 1 000 of
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_leave_at_random_moments_leave_nothing_behind() {
    let ledger = Ledger::default();
    let layer: IdempotencyLayer = layer();
    let app = slow(&ledger, Duration::from_secs(1)).route_layer(layer.clone());
    let server = Server::start(app).await;
    // what the store starts for itself stays
    server.send(post("/").key("warm-up")).await;
    let before = alive_tasks();
    let keys: Vec<String> = (0..rounds(60, 1_000)).map(|n| format!("key-{n}")).collect();
    for some in keys.chunks(100) {
        let leaving = some.iter().enumerate().map(|(number, key)| {
            let server = &server;
            async move {
                let moment = Duration::from_micros(fastrand::u64(0..1_200_000));
                if number % 2 == 0 {
                    let mut socket = TcpStream::connect(server.addr).await.unwrap();
                    socket.write_all(raw(key).as_bytes()).await.unwrap();
                    tokio::time::sleep(moment).await;
                } else {
                    // a stream that is reset, or an answer that is not read
                    let mut connection = Connection::open_http2(server.addr).await;
                    let call = connection.begin(post("/").key(key));
                    _ = tokio::time::timeout(moment, call).await;
                }
            }
        });
        join_all(leaving).await;
        let asking = some.iter().map(async |key| {
            eventually("a replay", async || replayed(&server, key).await).await;
            assert_eq!(ledger.effects(key), 1, "{key}");
        });
        join_all(asking).await;
    }
    eventually("no request is left", async || layer.in_flight() == 0).await;
    eventually("no task is left", async || alive_tasks() <= before).await;
}
