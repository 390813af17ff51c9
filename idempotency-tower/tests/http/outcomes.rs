//! Which answers are final, and what a handler that does not answer leaves behind.

use std::time::Duration;

use axum::{
    Router,
    error_handling::HandleErrorLayer,
    response::{IntoResponse, Response},
    routing::post as on_post,
};
use http::StatusCode;
use idempotency_core::{Idempotency, ResultPolicy};
use idempotency_memory::MemoryStore;
use idempotency_tower::{CurrentAttempt, Disposition, IdempotencyLayer, Profile, Takeover};
use tower::{BoxError, ServiceBuilder};
use tower_http::{catch_panic::CatchPanicLayer, timeout::TimeoutLayer};

use crate::{
    demo::{Runs, account, layer},
    support::{Server, post},
};

/// Answers with `first` and then with 201; shows the attempt.
fn after(first: StatusCode, runs: &Runs) -> axum::routing::MethodRouter {
    let runs = runs.clone();
    on_post(move |attempt: CurrentAttempt| {
        let status = if runs.count() == 1 { first } else { StatusCode::CREATED };
        async move { (status, attempt.number().to_string()) }
    })
}

/// Kinds of fault: a passing failure that is replayed for a day (H-19); a refusal before the work
/// that uses up the key (H-20).
#[tokio::test]
async fn passing_failures_run_again_and_final_answers_do_not() {
    let cases = [
        (401, ResultPolicy::Transient, false),
        (403, ResultPolicy::Transient, false),
        (408, ResultPolicy::Transient, false),
        (425, ResultPolicy::Transient, false),
        (429, ResultPolicy::Transient, false),
        (500, ResultPolicy::Transient, false),
        (503, ResultPolicy::Transient, false),
        (400, ResultPolicy::Transient, true),
        (402, ResultPolicy::Transient, true),
        (422, ResultPolicy::Transient, true),
        (302, ResultPolicy::Transient, true),
        (503, ResultPolicy::All, true),
        (429, ResultPolicy::All, true),
        (402, ResultPolicy::SuccessOnly, false),
        (200, ResultPolicy::SuccessOnly, true),
    ];
    for (status, policy, is_final) in cases {
        let status = StatusCode::from_u16(status).unwrap();
        let runs = Runs::default();
        let layer = layer().result_policy(policy);
        let app = Router::new().route("/", after(status, &runs));
        let server = Server::start(app.route_layer(layer)).await;
        let first = server.send(post("/").key("k")).await;
        assert_eq!((first.status, first.text()), (status, "1"));
        let second = server.send(post("/").key("k")).await;
        let third = server.send(post("/").key("k")).await;
        assert!(third.is_replay(), "{status} {policy:?}");
        if is_final {
            assert_eq!((second.status, second.is_replay()), (status, true));
            assert_eq!(runs.get(), 1);
        } else {
            assert_eq!((second.status.as_u16(), second.text()), (201, "2"));
            assert_eq!(runs.get(), 2, "{status} {policy:?}");
        }
    }
}

/// Kind of fault: an answer of a layer further out is stored (H-20). It never touches the key.
#[tokio::test]
async fn refusals_of_outer_layers_leave_the_key_unused() {
    for status in [401, 403, 413, 429] {
        let status = StatusCode::from_u16(status).unwrap();
        let refusals = Runs::default();
        let gate = axum::middleware::from_fn(
            move |request: axum::extract::Request, next: axum::middleware::Next| {
                let first = refusals.count() == 1;
                async move { if first { status.into_response() } else { next.run(request).await } }
            },
        );
        let app = Router::new()
            .route("/", after(StatusCode::CREATED, &Runs::default()))
            .route_layer(layer())
            .layer(gate);
        let server = Server::start(app).await;
        let refused = server.send(post("/").key("k").body("wrong")).await;
        assert_eq!(refused.status, status);
        let corrected = server.send(post("/").key("k")).await;
        assert_eq!((corrected.status.as_u16(), corrected.text()), (201, "1"));
    }
}

/// Kinds of fault: a path that ends the request without giving the key back (H-11); a panic or an
/// error after the effect that looks like nothing happened (H-10). The next attempt runs at once, and
/// knows that it is not the first.
#[tokio::test]
async fn errors_time_outs_and_panics_leave_the_key_to_a_second_attempt() {
    let runs = Runs::default();
    let hang = |runs: &Runs| {
        let runs = runs.clone();
        on_post(move |attempt: CurrentAttempt| async move {
            if runs.count() == 1 {
                std::future::pending::<()>().await;
            }
            attempt.number().to_string()
        })
    };
    let panics = {
        let runs = runs.clone();
        on_post(move |attempt: CurrentAttempt| async move {
            assert!(runs.count() > 1, "told to panic");
            attempt.number().to_string()
        })
    };
    let time_out = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(|_: BoxError| async { StatusCode::GATEWAY_TIMEOUT }))
        .layer(layer())
        .timeout(Duration::from_millis(50));
    let with_status =
        TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_millis(50));
    let cases: [(Router, u16); 4] = [
        (Router::new().route("/", hang(&runs)).layer(time_out), 504),
        (Router::new().route("/", hang(&runs)).layer(with_status).layer(layer()), 408),
        (
            Router::new().route("/", panics.clone()).layer(layer()).layer(CatchPanicLayer::new()),
            500,
        ),
        (Router::new().route("/", panics).layer(CatchPanicLayer::new()).layer(layer()), 500),
    ];
    for (app, status) in cases {
        let server = Server::start(app).await;
        runs.reset();
        let first = server.send(post("/").key("k")).await;
        assert_eq!(first.status.as_u16(), status);
        let second = server.send(post("/").key("k")).await;
        assert_eq!((second.status.as_u16(), second.text()), (200, "2"), "{status}");
        assert!(server.send(post("/").key("k")).await.is_replay());
    }
}

/// Where taking over is refused, nobody runs again by themselves, and waiting does not help.
#[tokio::test]
async fn an_unknown_outcome_is_told_where_taking_over_is_refused() {
    let runs = Runs::default();
    let careful = Idempotency::builder(MemoryStore::new()).refuse_takeover();
    let layer = IdempotencyLayer::new(careful.build().unwrap(), account);
    let app = Router::new()
        .route("/", after(StatusCode::INTERNAL_SERVER_ERROR, &runs))
        .route_layer(layer);
    let server = Server::start(app).await;
    assert_eq!(server.send(post("/").key("k")).await.status, 500);
    let second = server.send(post("/").key("k")).await;
    assert_eq!((second.status.as_u16(), second.problem()), (409, "outcome-unknown"));
    assert_eq!((second.retry_after(), runs.get()), (None, 1));
}

/// Kind of fault: a time limit inside the layer ends the handler amid the charge, its 408 counts as "known not to
/// have happened", and the charge is made again where that was never to be (H-10). All of the request was
/// there before the handler began, so a 408 says the same as a 504.
#[tokio::test]
async fn a_handler_that_was_timed_out_has_an_unknown_outcome() {
    for status in [StatusCode::REQUEST_TIMEOUT, StatusCode::GATEWAY_TIMEOUT] {
        for (takeover, told) in
            [(Takeover::Refuse, (409, "outcome-unknown", 1)), (Takeover::Allow, (201, "2", 2))]
        {
            let runs = Runs::default();
            let count = runs.clone();
            let charge = on_post(move |attempt: CurrentAttempt| async move {
                if count.count() == 1 {
                    std::future::pending::<()>().await;
                }
                (StatusCode::CREATED, attempt.number().to_string())
            });
            let limit = TimeoutLayer::with_status_code(status, Duration::from_millis(50));
            let app = Router::new().route("/", charge).layer(limit);
            let server = Server::start(app.layer(layer().takeover(takeover))).await;
            assert_eq!(server.send(post("/").key("k")).await.status, status);
            let second = server.send(post("/").key("k")).await;
            let is_refused = second.status == 409;
            let said = if is_refused { second.problem() } else { second.text() };
            assert_eq!((second.status.as_u16(), said, runs.get()), told, "{status} {takeover:?}");
        }
    }
}

/// Kind of fault: a limiter inside the layer gives up amid the charge with a 429, which counts as "nothing
/// happened" (H-10). A layer before it says what it knows, as the chapter on the order of layers has it.
#[tokio::test]
async fn a_layer_inside_can_say_that_nobody_knows() {
    let runs = Runs::default();
    let nobody_knows = |mut response: Response| {
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            response.extensions_mut().insert(Disposition::Unknown);
        }
        response
    };
    let around =
        ServiceBuilder::new().layer(layer().takeover(Takeover::Refuse)).map_response(nobody_knows);
    let app = Router::new().route("/", after(StatusCode::TOO_MANY_REQUESTS, &runs));
    let server = Server::start(app.route_layer(around)).await;
    assert_eq!(server.send(post("/").key("k")).await.status, 429);
    assert_eq!(server.send(post("/").key("k")).await.problem(), "outcome-unknown");
    assert_eq!(runs.get(), 1);
}

/// A policy that stores everything stores this, too, and a profile that names 408 as never final is believed.
#[tokio::test]
async fn what_was_said_of_408_is_believed() {
    let mut never_final = Profile::ietf();
    never_final.never_final = vec![StatusCode::REQUEST_TIMEOUT].into();
    for (layer, second) in [
        (layer().result_policy(ResultPolicy::All), 408),
        (layer().profile(never_final).takeover(Takeover::Refuse), 201),
    ] {
        let app = Router::new().route("/", after(StatusCode::REQUEST_TIMEOUT, &Runs::default()));
        let server = Server::start(app.route_layer(layer)).await;
        assert_eq!(server.send(post("/").key("k")).await.status, 408);
        assert_eq!(server.send(post("/").key("k")).await.status.as_u16(), second);
    }
}

/// Handlers see their attempt, and what an earlier one left.
#[tokio::test]
async fn a_checkpoint_is_handed_to_the_next_attempt() {
    async fn handler(attempt: CurrentAttempt) -> Response {
        match attempt.checkpoint() {
            None => {
                attempt.save_checkpoint("charged").await.unwrap();
                StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
            Some(left) => left.clone().into_response(),
        }
    }
    async fn optional(attempt: Option<CurrentAttempt>) -> &'static str {
        attempt.map_or("unprotected", |_| "protected")
    }
    let app = Router::new()
        .route("/", on_post(handler))
        .route("/optional", on_post(optional))
        .route_layer(layer());
    let server = Server::start(app).await;
    assert_eq!(server.send(post("/").key("k")).await.status, 503);
    assert_eq!(server.send(post("/").key("k")).await.text(), "charged");
    assert_eq!(server.send(post("/")).await.status, 500, "no key, no attempt");
    assert_eq!(server.send(post("/optional")).await.text(), "unprotected");
    assert_eq!(server.send(post("/optional").key("o")).await.text(), "protected");
}
