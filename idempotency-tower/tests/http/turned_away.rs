//! Requests that are refused before a claim are told to whoever measures.

use std::{
    mem::take,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, routing::post as on_post};
use idempotency_core::{ErrorKind, Event, Idempotency, Measurement, Observer, Source, TurnedAway};
use idempotency_tower::{IdempotencyLayer, Profile};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    demo::{Gate, account},
    faulty_store::{FaultyStore, Mood},
    support::{Call, Server, eventually, post, within},
};

/// Remembers who turned what away.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<(&'static str, TurnedAway)>>>);

impl Told {
    fn take(&self) -> Vec<(&'static str, TurnedAway)> {
        take(&mut *self.0.lock().unwrap())
    }
}

impl Observer for Told {
    fn observe(&self, _: &Event<'_>) {}

    fn measures(&self) -> bool {
        true
    }

    fn measure(&self, source: Source, measurement: Measurement) {
        if let Measurement::TurnedAway { reason } = measurement {
            self.0.lock().unwrap().push((source.label, reason));
        }
    }
}

/// Answers at once, but for a body `wait`.
fn app(layer: &IdempotencyLayer, gate: &Gate) -> Router {
    let gate = gate.clone();
    let handler = on_post(move |body: Bytes| async move {
        if body == "wait" {
            gate.pass().await;
        }
    });
    Router::new().route("/", handler).route_layer(layer.clone())
}

fn layer(store: &FaultyStore, told: &Told) -> IdempotencyLayer {
    let executor = Idempotency::builder(store.clone()).observer(told.clone());
    let executor = executor
        .store_timeout(Duration::from_millis(50))
        .store_deadline(Duration::from_millis(100));
    IdempotencyLayer::new(executor.build().unwrap(), account)
        .required()
        .max_request_bytes(100)
        .body_timeout(Duration::from_millis(100))
}

/// Kind of fault: a broken client release, a full layer and a storm of bad keys look like a quiet day, since
/// only what comes to the store is counted.
#[tokio::test]
async fn each_refusal_before_a_claim_is_told_once_with_its_reason() {
    let (store, told, gate) = (FaultyStore::new(Mood::Well), Told::default(), Gate::closed());
    let layer = layer(&store, &told).max_in_flight(1);
    let server = Server::start(app(&layer, &gate)).await;
    let refused: [(Call, u16, TurnedAway); 4] = [
        (post("/").anonymous().key("k"), 401, TurnedAway::NoPrincipal),
        (post("/"), 400, TurnedAway::KeyMissing),
        (post("/").key(""), 400, TurnedAway::KeyInvalid),
        (post("/").key("k").body("x".repeat(101)), 413, TurnedAway::BodyTooLarge),
    ];
    for (call, status, reason) in refused {
        assert_eq!(server.send(call).await.status.as_u16(), status);
        assert_eq!(told.take(), [("ietf", reason)]);
    }
    let head = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer acme\r\n\
                Idempotency-Key: k\r\n";
    let slow = server.raw(format!("{head}Content-Length: 9\r\n\r\nslow").as_bytes()).await;
    assert!(slow.starts_with("HTTP/1.1 408"), "{slow}");
    assert_eq!(told.take(), [("ietf", TurnedAway::BodyTooSlow)]);
    let no_chunk = format!("{head}Transfer-Encoding: chunked\r\n\r\nno chunk");
    let mut socket = TcpStream::connect(server.addr).await.unwrap();
    socket.write_all(no_chunk.as_bytes()).await.unwrap();
    let unreadable = [("ietf", TurnedAway::BodyUnreadable)];
    eventually("it is told", async || told.take() == unreadable).await;

    let crowded_out = async {
        eventually("one is under way", async || layer.in_flight() == 1).await;
        assert_eq!(server.send(post("/").key("b")).await.problem(), "overloaded");
        gate.open();
    };
    tokio::join!(server.send(post("/").key("a").body("wait")), crowded_out);
    assert_eq!(told.take(), [("ietf", TurnedAway::Overloaded)]);
    within(layer.drain()).await;
    assert_eq!(server.send(post("/").key("c")).await.problem(), "shutting-down");
    assert_eq!(told.take(), [("ietf", TurnedAway::ShuttingDown)]);
}

/// What came to the executor is counted there, and not twice. What needs no key is no refusal.
#[tokio::test]
async fn what_comes_to_the_store_is_not_turned_away() {
    let (store, told, gate) = (FaultyStore::new(Mood::Well), Told::default(), Gate::closed());
    let layer = layer(&store, &told);
    let server = Server::start(app(&layer, &gate)).await;
    let running = async {
        eventually("the first runs", async || layer.in_flight() == 1).await;
        let duplicate = server.send(post("/").key("k").body("wait")).await;
        assert_eq!(duplicate.problem(), "in-progress");
        gate.open();
    };
    tokio::join!(server.send(post("/").key("k").body("wait")), running);
    assert!(server.send(post("/").key("k").body("wait")).await.is_replay());
    assert_eq!(server.send(post("/").key("k")).await.problem(), "key-reused");
    store.becomes(Mood::Fails(ErrorKind::Unavailable));
    assert_eq!(server.send(post("/").key("k")).await.problem(), "store-unavailable");
    store.becomes(Mood::Fails(ErrorKind::Corrupt));
    assert_eq!(server.send(post("/").key("k")).await.problem(), "record-unreadable");
    let lax = Server::start(app(&layer.optional(), &gate)).await;
    assert_eq!(lax.send(post("/")).await.status, 200);
    assert_eq!(told.take(), []);
}

/// A key in the body is looked for when the body is there: the refusal is counted all the same, under the
/// name of its profile.
#[tokio::test]
async fn a_bad_key_in_the_body_is_told_too() {
    let (store, told) = (FaultyStore::new(Mood::Well), Told::default());
    let layer = layer(&store, &told).profile(Profile::stripe_webhooks());
    let server = Server::start(app(&layer, &Gate::closed())).await;
    for (body, reason) in [("{}", TurnedAway::KeyMissing), ("no JSON", TurnedAway::KeyInvalid)] {
        assert_eq!(server.send(post("/").body(body)).await.status, 400, "{body}");
        assert_eq!(told.take(), [("stripe_webhooks", reason)], "{body}");
    }
}
