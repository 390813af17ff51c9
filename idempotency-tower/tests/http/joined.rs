//! Handlers that join their attempt to a transaction of their own. The store's plain completion stands for
//! the commit; the real one is in the tests of the payments API.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    response::{IntoResponse, Response},
    routing::post as on_post,
};
use http::{HeaderValue, StatusCode, header};
use idempotency_core::{Event, EventKind, FinishOutcome, Idempotency, IdempotencyStore, Observer};
use idempotency_memory::MemoryStore;
use idempotency_tower::{CurrentAttempt, IdempotencyLayer};

use crate::{
    demo::{Runs, account},
    support::{Reply, Server, post},
};

/// What the handler does once its rows and its answer are prepared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// Commits and returns the answer.
    Commit,
    /// Commits, and takes the lost reply for a failure.
    CommitAndFail,
    /// Commits, and returns something else.
    CommitAndChange,
    /// Commits, and declines.
    CommitAndDecline,
    /// Commits, and panics.
    CommitAndPanic,
    /// Returns the answer without a commit.
    Forget,
    /// Returns the answer without a commit, and a layer inside adds a header line to it.
    ForgetAndChange,
    /// Rolls back and fails.
    FailFirst,
    /// Rolls back and declines.
    Decline,
}

struct Demo {
    server: Server,
    runs: Runs,
    events: Arc<Events>,
}

/// What the executor says.
#[derive(Debug, Default)]
struct Events(Mutex<Vec<EventKind>>);

impl Observer for Events {
    fn observe(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push(event.kind);
    }
}

impl Demo {
    async fn start(then: Then, body: &'static str) -> Self {
        let store = MemoryStore::new();
        let events = Arc::new(Events::default());
        let idempotency = Idempotency::builder(store.clone()).observer(events.clone()).build();
        let layer = IdempotencyLayer::new(idempotency.unwrap(), account).max_response_bytes(1_000);
        let runs = Runs::default();
        let counted = runs.clone();
        let store = Arc::new(store);
        let handler = move |attempt: CurrentAttempt| {
            let (store, run) = (Arc::clone(&store), counted.count());
            async move { handle(&store, attempt, then, run, body).await }
        };
        let app = Router::new().route("/c", on_post(handler)).route_layer(layer);
        Self { server: Server::start(app).await, runs, events }
    }

    async fn send(&self) -> Reply {
        self.server.send(post("/c").key("k")).await
    }
}

async fn handle(
    store: &MemoryStore,
    attempt: CurrentAttempt,
    then: Then,
    run: usize,
    body: &'static str,
) -> Response {
    let lines = [(header::SET_COOKIE, "a=1"), (header::LOCATION, "/c/1")];
    let response = (StatusCode::CREATED, lines, format!("{body} {run}")).into_response();
    let (answer, response) = attempt.answer_of(response).await;
    let request = attempt.completion(&answer).await.unwrap();
    if !matches!(then, Then::Forget | Then::ForgetAndChange | Then::FailFirst | Then::Decline) {
        assert_eq!(store.complete(request).await.unwrap(), FinishOutcome::Done);
    }
    match then {
        Then::Commit | Then::Forget => response.into_response(),
        Then::CommitAndChange => {
            let mut response = response.into_response();
            *response.status_mut() = StatusCode::OK;
            response.headers_mut().insert("x-more", HeaderValue::from_static("1"));
            response
        }
        Then::CommitAndPanic => panic!("after the commit"),
        Then::ForgetAndChange => ([("x-more", "1")], response).into_response(),
        Then::CommitAndFail | Then::FailFirst => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Then::CommitAndDecline | Then::Decline => {
            (StatusCode::PAYMENT_REQUIRED, "declined").into_response()
        }
    }
}

/// The bytes of now are those of every repetition, whatever the handler made of its commit (H-50). Its own
/// answer keeps what is not stored, like cookies.
#[tokio::test]
async fn a_committed_answer_is_given_now_and_in_every_repetition() {
    let commits =
        [Then::Commit, Then::CommitAndFail, Then::CommitAndChange, Then::CommitAndDecline];
    for then in commits {
        let demo = Demo::start(then, "charge").await;
        let first = demo.send().await;
        assert_eq!((first.status, first.text()), (StatusCode::CREATED, "charge 1"), "{then:?}");
        assert!(!first.is_replay() && first.headers.contains_key("idempotency-expires"));
        assert_eq!(first.lines("set-cookie").len(), usize::from(then == Then::Commit));
        assert!(first.lines("x-more").is_empty());
        let second = demo.send().await;
        assert!(second.is_replay(), "{then:?} {second:?}");
        assert_eq!((second.status, &second.body), (first.status, &first.body));
        assert_eq!(second.lines("location"), first.lines("location"));
        assert_eq!(demo.runs.get(), 1);
    }
}

/// Kind of fault: the metrics tell of a lost key where nothing was lost.
#[tokio::test]
async fn a_panic_after_the_commit_loses_nothing() {
    let demo = Demo::start(Then::CommitAndPanic, "charge").await;
    let request = "POST /c HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer acme\r\n\
                   Idempotency-Key: k\r\nContent-Length: 19\r\n\r\n{\"sku\":\"A\",\"qty\":1}";
    assert_eq!(demo.server.raw(request.as_bytes()).await, "", "the panic reaches the server");
    let second = demo.send().await;
    assert!(second.is_replay() && second.text() == "charge 1", "{second:?}");
    let events = demo.events.0.lock().unwrap();
    assert!(events.contains(&EventKind::Completed), "{events:?}");
    assert!(!events.contains(&EventKind::Lost), "{events:?}");
}

/// Kind of fault: success that speaks of rows that are not there. Layers between the handler and this one
/// may have added to it.
#[tokio::test]
async fn an_answer_whose_transaction_was_not_committed_reaches_nobody() {
    let large: &'static str = "x".repeat(2_000).leak();
    for then in [Then::Forget, Then::ForgetAndChange] {
        for body in ["charge", large] {
            let demo = Demo::start(then, body).await;
            for run in 1..=2 {
                let reply = demo.send().await;
                assert_eq!((reply.status.as_u16(), reply.problem()), (500, "rolled-back"));
                assert_eq!(demo.runs.get(), run, "nothing is stored");
            }
        }
    }
}

/// What was rolled back is treated as if it had never been joined.
#[tokio::test]
async fn after_a_rollback_the_handler_is_believed() {
    let failing = Demo::start(Then::FailFirst, "charge").await;
    for run in 1..=2 {
        assert_eq!(failing.send().await.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(failing.runs.get(), run);
    }
    let declining = Demo::start(Then::Decline, "charge").await;
    for is_replay in [false, true] {
        let reply = declining.send().await;
        assert_eq!((reply.status.as_u16(), reply.text()), (402, "declined"));
        assert_eq!(reply.is_replay(), is_replay);
    }
    assert_eq!(declining.runs.get(), 1);
}

/// The first caller gets all of an answer that is too large to be kept; a repetition is told (H-39). When
/// the handler does not hand it out, nobody has it.
#[tokio::test]
async fn an_answer_that_is_too_large_is_committed_as_done() {
    let large: &'static str = "x".repeat(2_000).leak();
    for (then, first_status) in
        [(Then::Commit, 201), (Then::CommitAndFail, 410), (Then::CommitAndDecline, 410)]
    {
        let demo = Demo::start(then, large).await;
        let first = demo.send().await;
        assert_eq!(first.status.as_u16(), first_status);
        assert_eq!(first.text().len() > 2_000, first_status == 201);
        let second = demo.send().await;
        assert_eq!((second.status.as_u16(), second.problem()), (410, "answer-not-kept"));
        assert_eq!(demo.runs.get(), 1);
    }
}
