//! The routes, and the layers around them.

use std::any::Any;

use anyhow::Context;
use axum::{
    Extension, Json, Router,
    extract::{DefaultBodyLimit, State, rejection::JsonRejection},
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{StatusCode, header};
use idempotency::{
    Connected, Idempotency,
    tower::{CurrentAttempt, IdempotencyLayer},
};
use serde_json::{Value, json};
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    account::{self, Account},
    arguments::Arguments,
    charge::{Kind, Order, Receipt},
    checkout,
    ledger::LedgerError,
    metrics::Metrics,
    problem, rate_limit,
    sandbox::{Payment, Sandbox},
};

/// The idempotency layers over the store: they share its records, and not their places. The page is there
/// for everybody, and nobody who sends slowly there takes the place of an account.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    payments: IdempotencyLayer,
    checkout: IdempotencyLayer,
}

/// Requests of the page that may be under way at once.
const CHECKOUT_IN_FLIGHT: usize = 128;

impl Layers {
    pub(crate) fn new(
        store: Connected,
        arguments: &Arguments,
        metrics: &Metrics,
    ) -> anyhow::Result<Self> {
        let idempotency = Idempotency::builder(store)
            .add_observer(metrics.observer().clone())
            .lease(arguments.lease)
            .retention(arguments.retention)
            .build()
            .context("--lease and --retention")?;
        let payments = IdempotencyLayer::new(idempotency, account::scope_of)
            .max_request_bytes(arguments.max_request_bytes)
            .max_response_bytes(arguments.max_response_bytes);
        let checkout = payments.clone().required().max_in_flight(CHECKOUT_IN_FLIGHT);
        Ok(Self { payments, checkout })
    }

    /// Ends when nothing is under way.
    pub(crate) async fn drain(&self) {
        tokio::join!(self.payments.drain(), self.checkout.drain());
    }
}

/// From the inside out: the routes that move money, the idempotency layer, the rate limit,
/// authentication; around all of it a net for panics, which the idempotency layer hands on.
pub(crate) fn router(
    sandbox: Sandbox,
    layers: &Layers,
    arguments: &Arguments,
    metrics: &Metrics,
) -> anyhow::Result<Router> {
    let limited = rate_limit::by_account(arguments.rate_limit).context("--rate-limit")?;
    let payments = Router::new()
        .route("/v1/charges", post(create_charge))
        .route("/v1/refunds", post(create_refund))
        .layer(DefaultBodyLimit::max(arguments.max_request_bytes))
        .route_layer(layers.payments.clone())
        .route("/v1/charges", get(list_charges));
    let payments = limited(payments).route_layer(middleware::from_fn(account::authenticate));
    let checkout = Router::new()
        .route("/checkout/charges", post(create_charge))
        .layer(DefaultBodyLimit::max(arguments.max_request_bytes))
        .route_layer(layers.checkout.clone());
    let checkout = limited(checkout).route_layer(middleware::from_fn(checkout::as_the_shop));
    Ok(Router::new()
        .merge(payments)
        .merge(checkout)
        .merge(checkout::page())
        .merge(metrics.route())
        .route("/ledger", get(show_ledger))
        .route("/webhooks", get(show_webhooks))
        .route("/healthz", get(|| async { "ok" }))
        .layer(CatchPanicLayer::custom(after_panic))
        .with_state(sandbox))
}

type Body = Result<Json<Order>, JsonRejection>;

async fn create_charge(
    State(sandbox): State<Sandbox>,
    Extension(account): Extension<Account>,
    attempt: Option<CurrentAttempt>,
    body: Body,
) -> Response {
    create(&sandbox, Kind::Charge, account, attempt, body).await
}

async fn create_refund(
    State(sandbox): State<Sandbox>,
    Extension(account): Extension<Account>,
    attempt: Option<CurrentAttempt>,
    body: Body,
) -> Response {
    create(&sandbox, Kind::Refund, account, attempt, body).await
}

async fn create(
    sandbox: &Sandbox,
    kind: Kind,
    account: Account,
    attempt: Option<CurrentAttempt>,
    body: Body,
) -> Response {
    let order = match body {
        Ok(Json(order)) => order,
        Err(rejection) => {
            return problem::new(rejection.status(), "bad-request", rejection.body_text())
                .into_response();
        }
    };
    if let Some(fault) = order.fault() {
        return problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-request", fault)
            .into_response();
    }
    sandbox.pay(Payment { kind, order, account, attempt }).await
}

/// The charges of the account that asks.
async fn list_charges(
    State(sandbox): State<Sandbox>,
    Extension(account): Extension<Account>,
) -> Result<Json<Value>, LedgerError> {
    let effects = sandbox.ledger.effects().await?.into_iter();
    let own = effects.filter(|e| e.kind == Kind::Charge && e.account == account.name());
    let charges: Vec<_> = own.map(Receipt::from).collect();
    Ok(Json(json!({ "object": "list", "data": charges })))
}

/// All effects of all accounts, one a line: the sandbox hides nothing.
async fn show_ledger(State(sandbox): State<Sandbox>) -> Result<Response, Unshown> {
    let mut page = String::from("{\"effects\": [");
    for (number, effect) in sandbox.ledger.effects().await?.iter().enumerate() {
        page.push_str(if number == 0 { "\n" } else { ",\n" });
        page.push_str(&serde_json::to_string(effect)?);
    }
    page.push_str("\n]}\n");
    Ok(([(header::CONTENT_TYPE, "application/json")], page).into_response())
}

/// What became of each event.
async fn show_webhooks(State(sandbox): State<Sandbox>) -> Result<Json<Value>, LedgerError> {
    let deliveries = match &sandbox.outbox {
        Some(outbox) => outbox.deliveries().await?,
        None => Vec::new(),
    };
    Ok(Json(json!({ "events": deliveries })))
}

/// Why the ledger is not shown.
enum Unshown {
    Ledger(LedgerError),
    /// An effect that cannot be written as JSON: there is none.
    NotJson(serde_json::Error),
}

impl From<LedgerError> for Unshown {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl From<serde_json::Error> for Unshown {
    fn from(error: serde_json::Error) -> Self {
        Self::NotJson(error)
    }
}

impl IntoResponse for Unshown {
    fn into_response(self) -> Response {
        match self {
            Self::Ledger(error) => error.into_response(),
            Self::NotJson(error) => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                problem::new(status, "internal", error.to_string()).into_response()
            }
        }
    }
}

/// What a client sees of a panic: the idempotency layer has left the key to another attempt.
fn after_panic(_: Box<dyn Any + Send>) -> Response {
    let detail = "The handler panicked, and nobody knows how far it came. A retry under the same key \
                  runs as the next attempt.";
    problem::new(StatusCode::INTERNAL_SERVER_ERROR, "panic", detail).into_response()
}
