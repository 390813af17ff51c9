//! A receiver of events: each is handled once, however often it is delivered.

use std::time::Duration;

use axum::{
    Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::post as on_post,
};
use http::StatusCode;
use idempotency_core::{Idempotency, Lease};
use idempotency_memory::MemoryStore;
use idempotency_tower::{CurrentAttempt, IdempotencyLayer, Profile, Scope};

use crate::{
    demo::{Gate, Runs},
    support::{Call, Server, eventually, post},
};

fn layer(profile: Profile) -> IdempotencyLayer {
    IdempotencyLayer::new(MemoryStore::new(), |_| Scope::new("events").ok()).profile(profile)
}

fn delivery(id: &str) -> Call {
    post("/").anonymous().header("webhook-id", id)
}

/// Answers with each status in turn, and then with 204.
fn answering(runs: &Runs, statuses: &'static [u16]) -> Router {
    let handler = async move |State(runs): State<Runs>, attempt: CurrentAttempt| {
        let status = statuses.get(runs.count() - 1).copied().unwrap_or(204);
        (StatusCode::from_u16(status).unwrap(), format!("attempt {}", attempt.number()))
    };
    Router::new().route("/", on_post(handler)).with_state(runs.clone())
}

/// Kind of fault: the event is marked as seen before it was handled, so its redelivery is acknowledged
/// and the event is lost (H-66). What is no success runs again.
#[tokio::test]
async fn a_failed_delivery_runs_again_and_a_handled_one_does_not() {
    let runs = Runs::default();
    let app = answering(&runs, &[500, 400, 303, 429, 200]);
    let server = Server::start(app.route_layer(layer(Profile::standard_webhooks()))).await;
    for (run, status) in [500, 400, 303, 429, 200].into_iter().enumerate() {
        let reply = server.send(delivery("msg_1")).await;
        assert_eq!((reply.status.as_u16(), reply.is_replay()), (status, false));
        assert_eq!(reply.text(), format!("attempt {}", run + 1));
    }
    for _ in 0..3 {
        let reply = server.send(delivery("msg_1").body("written anew")).await;
        assert_eq!((reply.status.as_u16(), reply.is_replay()), (200, true));
    }
    assert_eq!(runs.get(), 5);
    let other = server.send(delivery("msg_2")).await;
    assert_eq!((other.status.as_u16(), other.is_replay()), (204, false));
}

/// Kind of fault: a receiver that died amid an event has used it up (H-66). Its lease ends, and the next
/// delivery runs. Until then the sender is told to come back.
#[tokio::test]
async fn after_a_crash_the_event_runs_when_its_lease_has_ended() {
    let store = MemoryStore::new();
    let lease = Lease::new(Duration::from_millis(400)).unwrap();
    let layer = || {
        let short = Idempotency::builder(store.clone()).lease(lease).build().unwrap();
        IdempotencyLayer::new(short, |_| Scope::new("events").ok())
            .profile(Profile::standard_webhooks())
    };
    // its runtime ends amid the event, as a process does
    let begun = Runs::default();
    let count = begun.clone();
    let hanging = Router::new().route(
        "/",
        on_post(move || {
            count.count();
            std::future::pending::<()>()
        }),
    );
    let (died, layer_of_dead) = (std::sync::mpsc::channel(), layer());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start(hanging.route_layer(layer_of_dead.clone())).await;
            tokio::select! {
                reply = server.send(delivery("msg_1")) => panic!("{reply:?}"),
                () = eventually("it runs", async || begun.get() == 1) => {}
            }
        });
        runtime.shutdown_background();
        died.0.send(()).unwrap();
    });
    tokio::task::spawn_blocking(move || died.1.recv_timeout(Duration::from_secs(20)).unwrap())
        .await
        .unwrap();
    let runs = Runs::default();
    let server = Server::start(answering(&runs, &[200]).route_layer(layer())).await;
    let redelivered = async || {
        let reply = server.send(delivery("msg_1")).await;
        match reply.status.as_u16() {
            409 => assert!(reply.retry_after().is_some() && runs.get() == 0),
            status => assert_eq!((status, reply.text()), (200, "attempt 2")),
        }
        reply.status == 200
    };
    eventually("the event runs", redelivered).await;
    assert!(server.send(delivery("msg_1")).await.is_replay());
    assert_eq!(runs.get(), 1);
}

/// Kind of fault: only the latest event of a thing is remembered, so a late delivery of an older one is
/// applied again (H-67).
#[tokio::test]
async fn a_late_delivery_of_an_older_event_changes_nothing() {
    let paused = Runs::default();
    let handler = async |State(runs): State<Runs>, body: String| {
        runs.reset();
        if body == "pause" {
            runs.count();
        }
        body
    };
    let app = Router::new().route("/", on_post(handler)).with_state(paused.clone());
    let server = Server::start(app.route_layer(layer(Profile::standard_webhooks()))).await;
    for (id, event) in [("a", "pause"), ("b", "unpause"), ("a", "pause")] {
        let reply = server.send(delivery(id).body(event)).await;
        assert_eq!((reply.status.as_u16(), reply.text()), (200, event));
    }
    assert_eq!(paused.get(), 0, "still unpaused");
}

/// Kind of fault: a duplicate that comes while the first delivery runs is acknowledged, and the event is
/// lost when that one fails (H-66).
#[tokio::test]
async fn a_duplicate_of_a_running_delivery_is_sent_back() {
    let (runs, gate) = (Runs::default(), Gate::closed());
    let (count, wait) = (runs.clone(), gate.clone());
    let handler = async move || {
        count.count();
        wait.pass().await;
    };
    let app = Router::new().route("/", on_post(handler));
    let server = Server::start(app.route_layer(layer(Profile::standard_webhooks()))).await;
    let duplicate = async {
        eventually("the first runs", async || runs.get() == 1).await;
        let duplicate = server.send(delivery("msg_1")).await;
        gate.open();
        duplicate
    };
    let (first, second) = tokio::join!(server.send(delivery("msg_1")), duplicate);
    assert_eq!((first.status.as_u16(), second.problem()), (200, "in-progress"));
    assert!(second.retry_after().is_some());
    assert!(server.send(delivery("msg_1")).await.is_replay());
}

/// Kind of fault: a handled event whose answer was not kept is refused for ever, so its sender never
/// stops (H-68).
#[tokio::test]
async fn a_handled_event_is_acknowledged_even_when_its_answer_was_not_kept() {
    let runs = Runs::default();
    let count = runs.clone();
    let handler = move || {
        count.count();
        async { "x".repeat(100) }
    };
    let app = Router::new().route("/", on_post(handler));
    let layer = layer(Profile::standard_webhooks()).max_response_bytes(10);
    let server = Server::start(app.route_layer(layer)).await;
    assert_eq!(server.send(delivery("msg_1")).await.body.len(), 100);
    let again = server.send(delivery("msg_1")).await;
    assert_eq!((again.status.as_u16(), again.text(), again.is_replay()), (200, "", true));
    assert_eq!(runs.get(), 1);
}

/// Kind of fault: an event was handled and its acknowledgement got lost; each delivery after that is taken
/// for a duplicate and dropped without an acknowledgement, until the sender gives up (H-68).
#[tokio::test]
async fn an_event_whose_acknowledgement_got_lost_is_acknowledged_again() {
    let (runs, gate) = (Runs::default(), Gate::closed());
    let (count, wait) = (runs.clone(), gate.clone());
    let handler = async move || {
        count.count();
        wait.pass().await;
        StatusCode::ACCEPTED
    };
    let app = Router::new().route("/", on_post(handler));
    let server = Server::start(app.route_layer(layer(Profile::standard_webhooks()))).await;
    // the sender hangs up before it hears anything
    tokio::select! {
        reply = server.send(delivery("msg_1")) => panic!("{reply:?}"),
        () = eventually("it begins", async || runs.get() == 1) => {}
    }
    gate.open();
    for _ in 0..2 {
        let acknowledged = async || server.send(delivery("msg_1")).await.status == 202;
        eventually("it is acknowledged", acknowledged).await;
    }
    assert_eq!(runs.get(), 1);
}

/// The ids of the senders: a header, or a member of the body.
#[tokio::test]
async fn each_sender_has_its_place_for_the_id() {
    async fn echo(body: String) -> Response {
        body.into_response()
    }
    let event = r#"{"object":"event","id":"evt_1","data":{"id":"ch_1"}}"#;
    let anew = r#"{"id":"evt_1","pending_webhooks":0}"#;
    let token = |id| post("/").anonymous().header("i-twilio-idempotency-token", id);
    let cases = [
        (Profile::standard_webhooks(), delivery("1"), delivery("2")),
        (
            Profile::stripe_webhooks(),
            post("/").anonymous().body(event),
            post("/").anonymous().body(r#"{"id":"evt_2"}"#),
        ),
        (Profile::twilio_webhooks(), token("1"), token("2")),
    ];
    for (profile, event, other) in cases {
        let (name, layer) = (profile.name, layer(profile));
        let app = Router::new().route("/", on_post(echo)).route_layer(layer);
        let server = Server::start(app).await;
        let first = server.send(event.clone()).await;
        assert_eq!((first.status.as_u16(), first.is_replay()), (200, false), "{name}");
        let again = server.send(event).await;
        assert!(again.is_replay() && again.body == first.body, "{name}");
        assert!(!server.send(other).await.is_replay(), "{name}");
        let missing = server.send(post("/").anonymous().body("{}")).await;
        assert_eq!((missing.status.as_u16(), missing.problem()), (400, "key-missing"), "{name}");
        if name == "stripe_webhooks" {
            let anew = server.send(post("/").anonymous().body(anew)).await;
            assert!(anew.is_replay(), "the sender may write the event anew");
            let no_json = server.send(post("/").anonymous().body("id=evt_1")).await;
            assert_eq!(no_json.problem(), "key-invalid");
        }
    }
}
