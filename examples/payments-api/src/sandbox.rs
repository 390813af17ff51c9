//! The payment provider of the example: it moves no money, but writes down that it would have.

use std::{
    collections::HashSet,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json,
    body::Body,
    response::{
        AppendHeaders, IntoResponse, Response,
        sse::{Event, Sse},
    },
};
use futures_util::{StreamExt, stream};
use http::{StatusCode, header};
use idempotency::{Clock, SystemClock, tower::CurrentAttempt};

use crate::{
    account::Account,
    charge::{Kind, Order, Receipt},
    ledger::{Effect, Ledger, LedgerError},
    problem,
    source::Source,
    webhooks::{self, Outbox},
};

/// The sandbox and its ledger.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) ledger: Arc<dyn Ledger>,
    /// None: nobody is told.
    pub(crate) outbox: Option<Arc<dyn Outbox>>,
    clock: SystemClock,
    /// Who has met a failure that passes.
    failed_once: Arc<Mutex<HashSet<String>>>,
}

/// One payment about to be made.
#[derive(Debug)]
pub(crate) struct Payment {
    pub(crate) kind: Kind,
    pub(crate) order: Order,
    pub(crate) account: Account,
    pub(crate) attempt: Option<CurrentAttempt>,
}

/// Between two events of a stream.
const PAUSE: Duration = Duration::from_millis(200);

impl Sandbox {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, outbox: Option<Arc<dyn Outbox>>) -> Self {
        Self { ledger, outbox, clock: SystemClock::new(), failed_once: Arc::default() }
    }

    pub(crate) async fn pay(&self, payment: Payment) -> Response {
        match payment.order.source {
            Source::CardDeclined => declined(),
            Source::InternalError => failing(StatusCode::INTERNAL_SERVER_ERROR),
            Source::UnavailableOnce if self.is_first_try(&payment) => {
                failing(StatusCode::SERVICE_UNAVAILABLE)
            }
            Source::RateLimitedOnce if self.is_first_try(&payment) => {
                failing(StatusCode::TOO_MANY_REQUESTS)
            }
            Source::Slow(time) => {
                tokio::time::sleep(time).await;
                let response = self.settle(payment).await;
                tokio::time::sleep(time).await;
                response
            }
            _ => self.settle(payment).await,
        }
    }

    /// The effect, and the answer to it.
    async fn settle(&self, payment: Payment) -> Response {
        let Payment { kind, order, account, attempt } = payment;
        let effect = Effect {
            id: kind.new_id(),
            kind,
            account: account.name().to_owned(),
            customer: order.customer,
            amount: order.amount,
            currency: order.currency,
            attempt: attempt.as_ref().map(|attempt| attempt.number().get().into()),
            key_digest: attempt.as_ref().map(|attempt| attempt.key_digest().to_string()),
        };
        let is_told = self.outbox.is_some();
        let event = is_told.then(|| webhooks::Event::of(&effect, self.clock.now())).flatten();
        let entry = match self.ledger.write(&effect, event).await {
            Ok(entry) => entry,
            Err(error) => return error.into_response(),
        };
        let response = answer(order.source, effect);
        let committed = entry.commit(attempt.as_ref(), response).await;
        committed.unwrap_or_else(LedgerError::into_response)
    }

    /// By key, and without one by customer: the sandbox does not rely on the number of the attempt.
    fn is_first_try(&self, payment: &Payment) -> bool {
        let who = match &payment.attempt {
            Some(attempt) => attempt.key_digest().to_string(),
            None => format!("{} {}", payment.account.name(), payment.order.customer),
        };
        let mut failed = self.failed_once.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.remove(&who) {
            return false;
        }
        failed.insert(who)
    }
}

/// The answer to a payment that was made.
fn answer(source: Source, effect: Effect) -> Response {
    match source {
        Source::Panic => panic_after_effect(&effect),
        Source::Large(bytes) => "x".repeat(bytes).into_response(),
        Source::Cookies => (cookies(), created(effect)).into_response(),
        Source::Binary => Body::from((0..=255).collect::<Vec<u8>>()).into_response(),
        Source::Empty => StatusCode::NO_CONTENT.into_response(),
        Source::Stream(events) => events_of(&effect, events),
        _ => created(effect),
    }
}

fn created(effect: Effect) -> Response {
    let location = effect.kind.path(&effect.id);
    (StatusCode::CREATED, [(header::LOCATION, location)], Json(Receipt::from(effect)))
        .into_response()
}

fn cookies() -> impl axum::response::IntoResponseParts {
    AppendHeaders([
        (header::SET_COOKIE, "session=1; Expires=Wed, 21 Oct 2037 07:28:00 GMT; Secure"),
        (header::SET_COOKIE, "seen=yes"),
        (header::LINK, "</v1/charges>; rel=\"collection\""),
        (header::LINK, "</ledger>; rel=\"related\""),
    ])
}

fn events_of(effect: &Effect, count: usize) -> Response {
    let id = effect.id.clone();
    let events = stream::iter(0..count).then(move |number| {
        let event = Event::default().event("progress").data(format!("{id} {number}"));
        async move {
            if number > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            Ok::<_, Infallible>(event)
        }
    });
    Sse::new(events).into_response()
}

/// A decline is an answer like any other: repeating the request does not change it.
fn declined() -> Response {
    let detail = "The card was declined. Nothing was charged; use another source and a new key.";
    problem::new(StatusCode::PAYMENT_REQUIRED, "card-declined", detail).into_response()
}

/// Before the effect.
fn failing(status: StatusCode) -> Response {
    let detail = "The sandbox was told to fail. Nothing was charged; try again with the same key.";
    let refused = problem::new(status, "sandbox", detail);
    if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
        return ([(header::RETRY_AFTER, "1")], refused).into_response();
    }
    refused.into_response()
}

#[expect(clippy::panic, reason = "tok_panic is there to show what becomes of a panic")]
fn panic_after_effect(effect: &Effect) -> Response {
    panic!("tok_panic: after the effect {}", effect.id)
}
