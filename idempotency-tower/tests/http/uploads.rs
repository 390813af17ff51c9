//! Clients that send slowly, or far too much.

use std::time::Duration;

use axum::{Router, body::Bytes, routing::post as on_post};
use futures_util::future::join_all;
use idempotency_core::{Idempotency, ManualClock};
use idempotency_memory::MemoryStore;
use idempotency_tower::IdempotencyLayer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    demo::{Runs, account},
    support::{Server, eventually, post, within},
};

/// A service that counts, over a store of its own.
fn counting(runs: &Runs, layer: &IdempotencyLayer) -> Router {
    let runs = runs.clone();
    let handler = move |body: Bytes| async move {
        runs.count();
        body.len().to_string()
    };
    Router::new().route("/", on_post(handler)).route_layer(layer.clone())
}

fn head(key: &str, length: usize) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer acme\r\n\
         Idempotency-Key: {key}\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Kind of fault: clients that never end their uploads take all places, and everybody else is refused
/// (H-42). Their time is limited, and nothing is claimed for them.
#[tokio::test]
async fn uploads_that_take_too_long_give_their_place_back() {
    let (runs, store, clock) = (Runs::default(), MemoryStore::new(), ManualClock::new());
    let idempotency = Idempotency::builder(store.clone()).clock(clock.clone()).build().unwrap();
    let layer = IdempotencyLayer::new(idempotency, account)
        .max_in_flight(2)
        .body_timeout(Duration::from_millis(500));
    let server = Server::start(counting(&runs, &layer)).await;
    let stalled = async |key: &str| {
        let mut socket = TcpStream::connect(server.addr).await.unwrap();
        socket.write_all(head(key, 100).as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(socket.read_to_string(&mut answer)).await.unwrap();
        answer
    };
    let crowded_out = async {
        eventually("both are under way", async || layer.in_flight() == 2).await;
        let crowded_out = server.send(post("/").key("c")).await;
        let over = async || {
            clock.advance(Duration::from_millis(100));
            layer.in_flight() == 0
        };
        eventually("their time is over", over).await;
        crowded_out
    };
    let (a, b, c) = tokio::join!(stalled("a"), stalled("b"), crowded_out);
    for answer in [a, b] {
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("body-too-slow") && answer.contains("within 0.5 s"), "{answer}");
    }
    assert_eq!(c.problem(), "overloaded");
    assert_eq!((store.len(), runs.get()), (0, 0));
    assert_eq!(server.send(post("/").key("c")).await.text(), "19");
    assert_eq!(server.send(post("/").key("a")).await.text(), "19", "its key is unused");
}

/// One byte after the other is a request like any other, as long as it ends in time.
#[tokio::test]
async fn a_slow_upload_is_one_request() {
    let (runs, store) = (Runs::default(), MemoryStore::new());
    let server =
        Server::start(counting(&runs, &IdempotencyLayer::new(store.clone(), account))).await;
    let slow = async |bytes: &[u8]| {
        let mut socket = TcpStream::connect(server.addr).await.unwrap();
        socket.write_all(head("k", bytes.len()).as_bytes()).await.unwrap();
        for byte in bytes {
            assert!(runs.get() == 0 || store.len() == 1);
            socket.write_all(&[*byte]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let mut answer = String::new();
        within(socket.read_to_string(&mut answer)).await.unwrap();
        answer
    };
    let first = slow(b"0123456789").await;
    assert!(first.starts_with("HTTP/1.1 200") && first.ends_with("10"), "{first}");
    let second = slow(b"0123456789").await;
    assert!(second.contains("idempotent-replayed") && second.ends_with("10"), "{second}");
    assert_eq!((runs.get(), store.len()), (1, 1));
}

/// Kind of fault: what is over the limit is read to its end all the same (H-42). Each upload is cut off, in
/// parallel, and the server hears no more of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_uploads_far_over_the_limit_are_cut_off() {
    const LIMIT: usize = 64 * 1024;
    const FAR: usize = 64 << 20;
    let (runs, store) = (Runs::default(), MemoryStore::new());
    let layer = IdempotencyLayer::new(store.clone(), account).max_request_bytes(LIMIT);
    let server = Server::start(counting(&runs, &layer)).await;
    let upload = async |number: usize| {
        let mut socket = TcpStream::connect(server.addr).await.unwrap();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer acme\r\nIdempotency-Key: k{number}\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let (mut reading, mut writing) = socket.split();
        let chunk = [b"4000\r\n", &[b'x'; 0x4000][..], b"\r\n"].concat();
        let sending = async {
            let mut sent = 0;
            while sent < FAR && writing.write_all(&chunk).await.is_ok() {
                sent += 0x4000;
            }
            sent
        };
        let receiving = async {
            let mut answer = Vec::new();
            // a reset after the answer is the end, too
            _ = reading.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        };
        within(async { tokio::join!(sending, receiving) }).await
    };
    let all = join_all((0..50).map(upload)).await;
    let told = all.iter().filter(|(_, answer)| answer.starts_with("HTTP/1.1 413")).count();
    let sent: usize = all.iter().map(|(sent, _)| sent).sum();
    // of what was sent after the answer the kernel may throw the answer away
    assert!(told > 0, "{all:?}");
    assert!(sent < 50 * FAR / 4, "{sent} bytes were taken");
    eventually("none is under way", async || layer.in_flight() == 0).await;
    assert_eq!((store.len(), runs.get()), (0, 0));
}
