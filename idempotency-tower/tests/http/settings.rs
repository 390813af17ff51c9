//! Settings of one request, and what a handler says of its own answer.

use std::time::Duration;

use async_trait::async_trait;
use axum::{Extension, Router, extract::State, response::IntoResponse, routing::post as on_post};
use http::{HeaderName, HeaderValue, StatusCode, request::Parts};
use idempotency_core::{Clock, Question, Recovery, SystemClock, Verdict};
use idempotency_tower::{
    CurrentAttempt, Disposition, IdempotencyLayer, Profile, RequestSettings, ResultPolicy,
    Retention, Takeover, stored_response,
};

use crate::{
    demo::{Gate, Runs, layer},
    support::{Call, Reply, Server, eventually, post},
};

fn hours(hours: u64) -> Retention {
    Retention::new(Duration::from_hours(hours)).unwrap()
}

/// What the path asks for.
fn by_path(request: &Parts) -> RequestSettings {
    let settings = RequestSettings::new();
    match request.uri.path() {
        "/required" => settings.required(),
        "/off" => settings.off(),
        "/optional" => settings.optional(),
        "/payouts" => settings.retention(hours(30 * 24)),
        "/all" => settings.result_policy(ResultPolicy::All),
        "/wait" => settings.wait(Duration::from_secs(10)),
        "/reject" => settings.reject(),
        "/refuse" => settings.takeover(Takeover::Refuse),
        _ => settings,
    }
}

/// Counts, waits on two of the paths, and fails on three others.
fn counting(runs: &Runs, gate: &Gate) -> Router {
    async fn handler(
        State((runs, gate)): State<(Runs, Gate)>,
        uri: http::Uri,
    ) -> impl IntoResponse {
        let run = runs.count().to_string();
        if ["/wait", "/reject"].contains(&uri.path()) {
            gate.pass().await;
        }
        let fails = ["/all", "/refuse", "/fails"].contains(&uri.path());
        (if fails { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }, run)
    }
    Router::new().fallback(handler).with_state((runs.clone(), gate.clone()))
}

fn hours_left(reply: &Reply) -> u64 {
    let expires = reply.headers["idempotency-expires"].to_str().unwrap();
    let expires = httpdate::parse_http_date(expires).unwrap();
    let expires = expires.duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = SystemClock::new().now().as_unix_millis() / 1_000;
    (expires.as_secs() - now).div_ceil(3600)
}

#[tokio::test]
async fn each_kind_of_request_has_its_own_settings() {
    let (runs, gate) = (Runs::default(), Gate::closed());
    let app = counting(&runs, &gate).layer(layer().per_request(by_path));
    let server = Server::start(app).await;
    assert_eq!(server.send(post("/required")).await.problem(), "key-missing");
    assert_eq!(server.send(post("/else")).await.status, 200);
    for _ in 0..2 {
        assert!(!server.send(post("/off").key("off")).await.is_replay());
    }
    for (path, hours) in [("/payouts", 30 * 24), ("/else", 24)] {
        for _ in 0..2 {
            assert_eq!(hours_left(&server.send(post(path).key(path)).await), hours, "{path}");
        }
    }
    let twice = async |path: &str| {
        server.send(post(path).key(path)).await;
        server.send(post(path).key(path)).await
    };
    assert!(twice("/all").await.is_replay());
    assert!(!twice("/fails").await.is_replay());
    assert_eq!(twice("/refuse").await.problem(), "outcome-unknown");
}

/// One retention for a payout and for an offer, one rule for all of an API (H-17, H-18): each route has a clone
/// of the layer with settings of its own, over one store.
#[tokio::test]
async fn each_route_has_its_own_settings() {
    async fn answer(uri: http::Uri) -> (StatusCode, &'static str) {
        let fails = ["/all", "/refuse", "/fails"].contains(&uri.path());
        (if fails { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }, "ran")
    }
    let layer = layer();
    let with = |layer: IdempotencyLayer| on_post(answer).layer(layer);
    let app = Router::new()
        .route("/else", with(layer.clone()))
        .route("/fails", with(layer.clone()))
        .route("/payouts", with(layer.clone().retention(hours(30 * 24))))
        .route("/all", with(layer.clone().result_policy(ResultPolicy::All)))
        .route("/refuse", with(layer.clone().takeover(Takeover::Refuse)))
        .route("/required", with(layer.clone().required()))
        .route("/stripe", with(layer.clone().profile(Profile::stripe())));
    let server = Server::start(app).await;
    let twice = async |path: &str| {
        let first = server.send(post(path).key(path)).await;
        (first, server.send(post(path).key(path)).await)
    };
    for (path, hours) in [("/payouts", 30 * 24), ("/else", 24)] {
        let (first, second) = twice(path).await;
        assert_eq!((hours_left(&first), hours_left(&second)), (hours, hours), "{path}");
    }
    assert!(twice("/all").await.1.is_replay());
    assert!(!twice("/fails").await.1.is_replay());
    assert_eq!(twice("/refuse").await.1.problem(), "outcome-unknown");
    assert_eq!(server.send(post("/required")).await.problem(), "key-missing");
    assert_eq!(server.send(post("/else")).await.text(), "ran");
    // a key of one route is taken for another, and refused as that route does it
    for (path, status) in [("/stripe", 400), ("/required", 422)] {
        let reused = server.send(post(path).key("/else")).await;
        assert_eq!((reused.status.as_u16(), reused.problem()), (status, "key-reused"), "{path}");
    }
}

/// Whether a duplicate waits is a setting of its request.
#[tokio::test]
async fn a_duplicate_waits_or_is_told_as_its_request_says() {
    let (runs, gate) = (Runs::default(), Gate::closed());
    let layer = layer().per_request(by_path);
    let server = Server::start(counting(&runs, &gate).layer(layer.clone())).await;
    let send = |path: &'static str| server.send(post(path).key(path));
    let told = async {
        eventually("both of the first run", async || runs.get() == 2).await;
        let told = send("/reject").await;
        let open = async {
            eventually("three are under way", async || layer.in_flight() == 3).await;
            gate.open();
        };
        let (waited, ()) = tokio::join!(send("/wait"), open);
        (told, waited)
    };
    let (_, _, (told, waited)) = tokio::join!(send("/reject"), send("/wait"), told);
    assert_eq!(told.problem(), "in-progress");
    assert_eq!((waited.status.as_u16(), waited.is_replay()), (200, true));
    assert_eq!(runs.get(), 2);
}

/// A layer that requires keys can be told for which requests it does not.
#[tokio::test]
async fn a_request_can_be_less_strict_than_its_layer() {
    let (runs, gate) = (Runs::default(), Gate::closed());
    let strict = counting(&runs, &gate).layer(layer().required().per_request(by_path));
    let server = Server::start(strict).await;
    for (path, status) in [("/else", 400), ("/off", 200), ("/optional", 200)] {
        assert_eq!(server.send(post(path)).await.status.as_u16(), status, "{path}");
    }
    let lax = counting(&runs, &gate).layer(layer().required().optional());
    assert_eq!(Server::start(lax).await.send(post("/else")).await.status, 200);
}

/// What the header `x-say` asks for is said of the answer, whose status is that of the body.
fn speaking(runs: &Runs) -> Router {
    async fn handler(
        State(runs): State<Runs>,
        attempt: CurrentAttempt,
        headers: http::HeaderMap,
        body: String,
    ) -> impl IntoResponse {
        runs.count();
        let status = StatusCode::from_bytes(body.as_bytes()).unwrap();
        let mut response = (status, format!("attempt {}", attempt.number())).into_response();
        let said = match headers.get("x-say").map(HeaderValue::as_bytes) {
            Some(b"store") => Some(Disposition::Store),
            Some(b"failed") => Some(Disposition::Failed),
            Some(b"not started") => Some(Disposition::NotStarted),
            Some(b"unknown") => Some(Disposition::Unknown),
            _ => None,
        };
        if let Some(said) = said {
            response = (Extension(said), response).into_response();
        }
        response
    }
    Router::new().route("/", on_post(handler)).with_state(runs.clone())
}

fn saying(key: &str, what: &str, status: &'static str) -> Call {
    post("/").key(key).named(HeaderName::from_static("x-say"), what).body(status)
}

/// Kinds of fault: a passing failure that is replayed for a day (H-19), a refusal before the work that
/// uses up the key (H-20). The handler knows best what it has done.
#[tokio::test]
async fn what_the_handler_says_of_its_answer_goes_before_the_policy() {
    let runs = Runs::default();
    let server = Server::start(speaking(&runs).route_layer(layer())).await;
    // final, whatever the status
    for _ in 0..2 {
        let reply = server.send(saying("final", "store", "503")).await;
        assert_eq!((reply.status.as_u16(), reply.text()), (503, "attempt 1"));
    }
    assert_eq!(runs.get(), 1);
    // failed, whatever the status: the next attempt runs
    for attempt in ["attempt 1", "attempt 2"] {
        assert_eq!(server.send(saying("failed", "failed", "201")).await.text(), attempt);
    }
    // nothing began: the key is as good as new, also for another request
    for status in ["429", "201", "202"] {
        let reply = server.send(saying("free", "not started", status)).await;
        assert_eq!((reply.status.as_str(), reply.text()), (status, "attempt 1"));
        assert!(!reply.headers.contains_key("idempotency-expires"));
    }
    // what an earlier attempt may have done does not go away because a later one did not begin
    server.send(saying("later", "failed", "500")).await;
    server.send(saying("later", "not started", "500")).await;
    assert_eq!(server.send(saying("later", "store", "500")).await.text(), "attempt 3");
    // unknown: where taking over is refused, nobody runs
    let careful = layer().takeover(Takeover::Refuse);
    let server = Server::start(speaking(&runs).route_layer(careful)).await;
    assert_eq!(server.send(saying("k", "unknown", "202")).await.status, 202);
    assert_eq!(server.send(saying("k", "unknown", "202")).await.problem(), "outcome-unknown");
}

/// Kind of fault: one retention for a receipt and for a passing offer (H-17, H-18).
#[tokio::test]
async fn a_handler_says_how_long_its_answer_is_good_for() {
    let long = || async { (Extension(hours(48)), "long") };
    let short = || async {
        (Extension(Retention::new(Duration::from_millis(1)).unwrap()), "at least the lease")
    };
    let app = Router::new()
        .route("/long", on_post(long))
        .route("/short", on_post(short))
        .route_layer(layer().retention(hours(5)));
    let server = Server::start(app).await;
    for path in ["/long", "/short"] {
        let first = server.send(post(path).key(path)).await;
        let second = server.send(post(path).key(path)).await;
        assert!(second.is_replay(), "{path}");
        let hours = if path == "/long" { 48 } else { 1 }; // an hour that has begun
        assert_eq!((hours_left(&first), hours_left(&second)), (hours, hours), "{path}");
    }
}

/// Finds out what became of an attempt, as a look into the provider's books would.
#[derive(Clone, Debug, Default)]
struct Books {
    asked: Runs,
}

#[async_trait]
impl Recovery for Books {
    async fn recover(&self, question: Question<'_>) -> Verdict {
        self.asked.count();
        match question.key.key() {
            "charged" => {
                let charge = http::Response::builder()
                    .status(201)
                    .header("location", "/charges/1")
                    .body(format!("recovered {}", question.abandoned.attempt))
                    .unwrap();
                Verdict::Happened(stored_response(&charge).unwrap())
            }
            "declined" => Verdict::NotHappened,
            _ => Verdict::Unknown,
        }
    }
}

/// Kind of fault: a crash after the effect runs it again (H-10). Where it matters the layer asks first.
#[tokio::test]
async fn a_recovery_hook_says_what_became_of_an_attempt() {
    let (runs, books) = (Runs::default(), Books::default());
    let app = speaking(&runs).route_layer(layer().recovery(books.clone()));
    let server = Server::start(app).await;
    for key in ["charged", "declined", "nobody knows"] {
        assert_eq!(server.send(saying(key, "unknown", "500")).await.status, 500);
    }
    let charged = server.send(saying("charged", "unknown", "500")).await;
    assert_eq!((charged.status.as_u16(), charged.text()), (201, "recovered 1"));
    assert_eq!(charged.headers["location"], "/charges/1");
    assert!(charged.is_replay());
    assert!(server.send(saying("charged", "unknown", "500")).await.is_replay());
    assert_eq!((books.asked.get(), runs.get()), (1, 3));
    let declined = server.send(saying("declined", "unknown", "500")).await;
    assert_eq!((declined.text(), runs.get()), ("attempt 2", 4));
    let unknown = async || {
        let reply = server.send(saying("nobody knows", "unknown", "500")).await;
        reply.problem() == "outcome-unknown"
    };
    eventually("nobody runs it", unknown).await;
    assert_eq!(runs.get(), 4);
}
