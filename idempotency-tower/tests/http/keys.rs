//! Which keys are accepted, and when one is needed.

use axum::{Router, routing::post as on_post};
use idempotency_tower::IdempotencyLayer;

use crate::{
    demo::{Runs, account, layer},
    faulty_store::{FaultyStore, Mood},
    support::{Connection, Server, post},
};

fn counting(runs: &Runs) -> Router {
    let runs = runs.clone();
    let handler = move || {
        let number = runs.count();
        async move { number.to_string() }
    };
    Router::new().route("/", on_post(handler))
}

/// Kind of fault: a missing key that is taken for a key all clients share (H-28).
#[tokio::test]
async fn without_a_key_a_request_passes_and_is_never_stored() {
    let runs = Runs::default();
    let store = FaultyStore::new(Mood::Well);
    let layer = IdempotencyLayer::new(store.clone(), account);
    let server = Server::start(counting(&runs).route_layer(layer)).await;
    for number in ["1", "2"] {
        let reply = server.send(post("/").anonymous()).await;
        assert_eq!((reply.text(), reply.is_replay()), (number, false));
    }
    assert_eq!(store.calls(), 0);
}

#[tokio::test]
async fn without_a_key_a_request_is_refused_where_one_is_required() {
    let runs = Runs::default();
    let server = Server::start(counting(&runs).route_layer(layer().required())).await;
    let reply = server.send(post("/")).await;
    assert_eq!((reply.status.as_u16(), reply.problem()), (400, "key-missing"));
    assert_eq!(runs.get(), 0);
    assert_eq!(server.send(post("/").key("k")).await.status, 200);
}

/// Kinds of fault: empty, doubled, over-long, non-ASCII and half-quoted keys (H-28 to H-31).
#[tokio::test]
async fn what_cannot_be_one_key_is_refused_before_anything_runs() {
    let runs = Runs::default();
    let store = FaultyStore::new(Mood::Well);
    let layer = IdempotencyLayer::new(store.clone(), account);
    let server = Server::start(counting(&runs).route_layer(layer)).await;
    let long = "k".repeat(256);
    let bad: [&[u8]; 14] = [
        b"",
        b"  ",
        b"\"\"",
        b"\" \"",
        b"\xff\xfe",
        "ключ".as_bytes(),
        "🔑".as_bytes(),
        b"a\tb",
        b"\"abc",
        b"abc\"",
        b"\"abc\";p=1",
        b"K, K",
        b"\"K\", \"K\"",
        long.as_bytes(),
    ];
    for http2 in [false, true] {
        let mut connection = if http2 {
            Connection::open_http2(server.addr).await
        } else {
            Connection::open(server.addr).await
        };
        for key in bad {
            let reply = connection.send(post("/").key(key)).await;
            let told = (reply.status.as_u16(), reply.problem());
            assert_eq!(told, (400, "key-invalid"), "{}", key.escape_ascii());
        }
        for twice in [["k", "k"], ["k", "l"]] {
            let call = post("/").key(twice[0]).key(twice[1]);
            let reply = connection.send(call).await;
            assert_eq!((reply.status.as_u16(), reply.problem()), (400, "key-invalid"));
        }
    }
    assert_eq!((store.calls(), runs.get()), (0, 0));
}

/// Kind of fault: one key in two spellings charges twice (H-29, H-31).
#[tokio::test]
async fn all_spellings_of_a_key_are_one_key() {
    let runs = Runs::default();
    let server = Server::start(counting(&runs).route_layer(layer())).await;
    assert_eq!(server.send(post("/").key("abc")).await.text(), "1");
    assert!(server.send(post("/").key("\"abc\"")).await.is_replay());
    assert!(server.send(post("/").key("  abc  ")).await.is_replay());
    let mut http2 = Connection::open_http2(server.addr).await;
    assert!(http2.send(post("/").key("abc")).await.is_replay());
    let lines = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer acme\r\n\
                 IDEMPOTENCY-key: abc\r\nContent-Length: 19\r\n\r\n{\"sku\":\"A\",\"qty\":1}";
    let answer = server.raw(lines.as_bytes()).await;
    assert!(answer.contains("idempotent-replayed: true"), "{answer}");
    let escaped = post("/").key("\"a\\\"b\"");
    assert_eq!(server.send(escaped.clone()).await.text(), "2");
    assert!(server.send(escaped).await.is_replay());
    let longest = "k".repeat(255);
    assert_eq!(server.send(post("/").key(&longest)).await.text(), "3");
    assert!(server.send(post("/").key(longest)).await.is_replay());
    assert_eq!(runs.get(), 3);
}
