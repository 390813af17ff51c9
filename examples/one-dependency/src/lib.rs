//! A store by URL, an operation with typed results, a tower service behind the layer, and metrics, with
//! `idempotency` as the only dependency. The runtime and the server are the application's own choice.

use std::{
    convert::Infallible,
    future::{Ready, poll_fn, ready},
    task::{Context, Poll},
};

use idempotency::{
    Classify, ConnectError, Disposition, Error, Fingerprint, Idempotency, IdempotencyKey, Outcome,
    Scope,
    metrics::MetricsObserver,
    serde::{Deserialize, Serialize},
    tower::{
        Body, HttpBody, IdempotencyLayer, IdempotencyService, Layer, Service,
        http::{Request, Response},
    },
};

/// What is to be charged.
#[derive(Debug, Serialize)]
#[serde(crate = "idempotency::serde")]
pub struct Order {
    /// In cents.
    pub amount: u64,
}

/// What was charged.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "idempotency::serde")]
pub struct Charge {
    /// In cents.
    pub amount: u64,
    /// Which attempt it was.
    pub attempt: u32,
}

/// Why nothing was charged.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(crate = "idempotency::serde")]
pub enum Declined {
    /// There is nothing to charge.
    Nothing,
}

impl Classify for Declined {
    fn disposition(&self) -> Disposition {
        Disposition::Store
    }
}

/// An executor over the store that `url` names, with metrics.
///
/// # Errors
/// The store cannot be had.
pub async fn executor(url: &str) -> Result<Idempotency, ConnectError> {
    let metrics = MetricsObserver::new();
    let store = metrics.meter(idempotency::connect(url).await?);
    let built = Idempotency::builder(store).add_observer(metrics).label("charges").build();
    Ok(built.unwrap_or_else(|error| unreachable!("the defaults fit each other: {error}")))
}

/// Charges once for each key.
///
/// # Errors
/// The store could not answer, and nothing was charged.
pub async fn charge(
    idempotency: &Idempotency,
    key: &IdempotencyKey,
    order: &Order,
) -> Result<Outcome<Charge, Declined>, Error> {
    let request = Fingerprint::builder().part("amount", order.amount.to_string()).finish();
    let work = async |attempt: idempotency::Attempt| {
        let attempt = attempt.number().get();
        if order.amount == 0 {
            Err(Declined::Nothing)
        } else {
            Ok(Charge { amount: order.amount, attempt })
        }
    };
    idempotency.run(key, request, work).await
}

/// Answers how often it was called.
#[derive(Clone, Debug, Default)]
pub struct Handler {
    calls: std::sync::Arc<std::sync::atomic::AtomicU32>,
}

impl Service<Request<HttpBody<String>>> for Handler {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<HttpBody<String>>) -> Self::Future {
        let calls = self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        ready(Ok(Response::new(format!("call {calls}"))))
    }
}

/// The handler behind the layer.
pub fn service(idempotency: Idempotency) -> IdempotencyService<Handler> {
    IdempotencyLayer::new(idempotency, |_| Some(Scope::global())).layer(Handler::default())
}

/// All of a body, as text.
pub async fn text(body: HttpBody<String>) -> String {
    let mut body = std::pin::pin!(body);
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        if let Some(data) = frame.ok().and_then(|frame| frame.into_data().ok()) {
            all.extend_from_slice(&data);
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}
