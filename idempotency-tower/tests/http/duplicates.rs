//! Many clients, one key.

use std::time::Duration;

use axum::{Router, routing::post as on_post};
use futures_util::future::join_all;
use idempotency_core::{Idempotency, OnDuplicate};
use idempotency_memory::MemoryStore;
use idempotency_tower::IdempotencyLayer;

use crate::{
    demo::{Gate, Runs, account, layer},
    support::{Connection, Server, eventually, post, rounds},
};

const CLIENTS: usize = 50;

fn counting(runs: &Runs, time: Duration) -> Router {
    let runs = runs.clone();
    let handler = on_post(move || async move {
        let number = runs.count();
        tokio::time::sleep(time).await;
        number.to_string()
    });
    Router::new().route("/", handler)
}

/// Kind of fault: two of many simultaneous claims win (H-01), or a lost race is answered as an error
/// of the server (H-15). The full run has 200 rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_simultaneous_duplicates_one_runs() {
    let runs = Runs::default();
    let app = counting(&runs, Duration::from_millis(2)).route_layer(layer());
    let server = Server::start(app).await;
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(Connection::open(server.addr).await);
    }
    for round in 1..=rounds(20, 200) {
        let key = format!("round-{round}");
        let calls = connections.iter_mut().map(|client| client.send(post("/").key(&key)));
        let replies = join_all(calls).await;
        for reply in &replies {
            match reply.status.as_u16() {
                200 => assert_eq!(reply.text(), round.to_string()),
                409 => assert_eq!((reply.problem(), reply.retry_after()), ("in-progress", Some(1))),
                status => panic!("{status}: {reply:?}"),
            }
        }
        let first = replies.iter().filter(|r| r.status == 200 && !r.is_replay());
        assert_eq!((first.count(), runs.get()), (1, round));
    }
}

/// The same where duplicates wait: all get the one answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_that_wait_all_get_the_answer() {
    let runs = Runs::default();
    let timeout = Duration::from_secs(10);
    let waiting =
        Idempotency::builder(MemoryStore::new()).on_duplicate(OnDuplicate::Wait { timeout });
    let layer = IdempotencyLayer::new(waiting.build().unwrap(), account);
    let app = counting(&runs, Duration::from_millis(100)).route_layer(layer);
    let server = Server::start(app).await;
    let calls = (0..CLIENTS).map(|_| server.send(post("/").key("k")));
    let replies = join_all(calls).await;
    assert!(replies.iter().all(|r| r.status == 200 && r.text() == "1"));
    assert_eq!(replies.iter().filter(|r| !r.is_replay()).count(), 1);
    assert_eq!(runs.get(), 1);
}

/// Kind of fault: duplicates that wait take every place, and the whole service answers 503. They take those of
/// their own routes when these have a cap of their own, and give them back.
#[tokio::test]
async fn duplicates_that_wait_fill_the_places_of_their_own_routes() {
    let (runs, gate) = (Runs::default(), Gate::closed());
    let (count, wait) = (runs.clone(), gate.clone());
    let slow = on_post(move || async move {
        count.count();
        wait.pass().await;
    });
    let layer = layer();
    let waiting = OnDuplicate::Wait { timeout: Duration::from_secs(20) };
    let patient = layer.clone().on_duplicate(waiting).max_in_flight(3);
    let app = Router::new()
        .route("/slow", slow.layer(patient.clone()))
        .route("/quick", on_post(async || "quick").layer(layer.clone()));
    let server = Server::start(app).await;
    let call = || server.send(post("/slow").key("k"));
    let others = async {
        eventually("its places are taken", async || patient.in_flight() == 3).await;
        assert_eq!(call().await.problem(), "overloaded");
        assert_eq!(server.send(post("/quick").key("q")).await.text(), "quick");
        assert_eq!(layer.in_flight(), 0);
        gate.open();
    };
    let (one, two, three, ()) = tokio::join!(call(), call(), call(), others);
    let replays = [one, two, three].iter().filter(|reply| reply.is_replay()).count();
    assert_eq!((replays, runs.get()), (2, 1));
    eventually("they are given back", async || patient.in_flight() == 0).await;
}

/// Kind of fault: two requests with one key run side by side (H-23), and the key is the property of
/// whoever ends last. The second is told while the first still runs.
#[tokio::test]
async fn another_request_is_refused_while_the_first_runs() {
    let runs = Runs::default();
    let app = counting(&runs, Duration::from_millis(300)).route_layer(layer());
    let server = Server::start(app).await;
    let (one, other) = tokio::join!(
        server.send(post("/").key("k")),
        server.send(post("/").key("k").body("other"))
    );
    let (winner, loser) = if one.status == 200 { (one, other) } else { (other, one) };
    assert_eq!((winner.status.as_u16(), loser.problem()), (200, "key-reused"));
    assert_eq!(runs.get(), 1);
}
