//! The routes, and the layers around them.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use axum::{
    Json, Router,
    extract::State,
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use http::StatusCode;
use idempotency::{
    Idempotency, Scope, SystemClock,
    tower::{CurrentAttempt, IdempotencyLayer, Profile},
};

use crate::{
    arguments::Arguments,
    event::Event,
    inbox::{Contents, Inbox},
    problem,
    secret::Secret,
    signature::{self, Gate, Scheme},
};

/// What handles events.
#[derive(Clone, Debug)]
struct Handler {
    scheme: Scheme,
    inbox: Inbox,
    fail_first: usize,
    work: Duration,
}

/// A router, and the layers that are to be drained.
pub(crate) fn router(
    idempotency: &Idempotency,
    arguments: &Arguments,
) -> Result<(Router, Vec<IdempotencyLayer>)> {
    let standard = arguments.secret.iter().map(Secret::standard);
    let standard = standard.collect::<Result<Vec<_>>>().context("--secret")?;
    let stripe = arguments.stripe_secret.iter().map(Secret::stripe);
    let stripe = stripe.collect::<Result<Vec<_>>>().context("--stripe-secret")?;
    ensure!(!(standard.is_empty() && stripe.is_empty()), "give --secret, --stripe-secret or both");
    let inbox = Inbox::default();
    let mut router = Router::new().route("/inbox", get(show_inbox)).with_state::<()>(inbox.clone());
    let mut layers = Vec::new();
    for (scheme, keys) in [(Scheme::Standard, standard), (Scheme::Stripe, stripe)] {
        if keys.is_empty() {
            continue;
        }
        let Arguments { fail_first, work, body_timeout, .. } = *arguments;
        let layer = layer(idempotency.clone(), scheme);
        let gate = Arc::new(Gate { scheme, keys, body_timeout, clock: SystemClock::new() });
        // from the inside out: the handler, the idempotency layer, the signature
        let endpoint = Router::new()
            .route(scheme.path(), post(handle))
            .route_layer(layer.clone())
            .route_layer(middleware::from_fn_with_state(gate, signature::verify))
            .with_state(Handler { scheme, inbox: inbox.clone(), fail_first, work });
        router = router.merge(endpoint);
        layers.push(layer);
    }
    Ok((router, layers))
}

/// The endpoint is the scope: an id is the sender's, and two senders may use the same.
fn layer(idempotency: Idempotency, scheme: Scheme) -> IdempotencyLayer {
    let scope = move |_: &_| Scope::new(scheme.path()).ok();
    IdempotencyLayer::new(idempotency, scope).profile(match scheme {
        Scheme::Standard => Profile::standard_webhooks(),
        Scheme::Stripe => Profile::stripe_webhooks(),
    })
}

impl Scheme {
    const fn path(self) -> &'static str {
        match self {
            Self::Standard => "/webhooks/standard",
            Self::Stripe => "/webhooks/stripe",
        }
    }
}

/// Runs once for each event that it answers with 2xx.
async fn handle(State(handler): State<Handler>, attempt: CurrentAttempt, body: Bytes) -> Response {
    if handler.inbox.begin() <= handler.fail_first {
        let detail = "This delivery was to fail. Nothing was done; deliver the event again.";
        return problem::response(StatusCode::INTERNAL_SERVER_ERROR, "failing", detail);
    }
    let event = match Event::read(handler.scheme, &body) {
        Ok(event) => event,
        Err(error) => {
            let detail = format!("This is no event: {error}.");
            return problem::response(StatusCode::BAD_REQUEST, "no-event", detail);
        }
    };
    tokio::time::sleep(handler.work).await;
    // more than 1: an earlier delivery may have been handled, in whole or in part. Here nothing is left of
    // it; a real handler looks.
    handler.inbox.apply(event, attempt.number().get().into());
    StatusCode::NO_CONTENT.into_response()
}

async fn show_inbox(State(inbox): State<Inbox>) -> Json<Contents> {
    Json(inbox.show())
}
