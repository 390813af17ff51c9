use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use backon::{BackoffBuilder, ExponentialBuilder};
use hmac::Hmac;
use http::{StatusCode, header};
use idempotency::{Clock, SystemClock};
use reqwest::{Client, Url, redirect};
use sha2::Sha256;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Outbox, Secret, event::Event, outbox::State, signature};

/// Where webhooks go, and how hard it is tried.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) secret: Secret,
    /// The wait after the first try; each further one is twice as long, plus up to as much again.
    pub(crate) backoff: Duration,
    pub(crate) tries: usize,
}

/// Empties the outbox.
#[derive(Clone, Debug)]
pub(crate) struct Sender(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    outbox: Outbox,
    url: Url,
    key: Hmac<Sha256>,
    backoff: ExponentialBuilder,
    client: Client,
    clock: SystemClock,
    /// Requests at once. An endpoint that is down holds none of them while it is waited for.
    slots: Semaphore,
    deliveries: TaskTracker,
    closing: CancellationToken,
}

/// How long an endpoint has for its answer.
const PATIENCE: Duration = Duration::from_secs(15);
const MAX_WAIT: Duration = Duration::from_hours(1);
const MAX_AT_ONCE: usize = 16;

/// Why a try did not deliver.
#[derive(Debug)]
struct Failure {
    what: String,
    /// The endpoint wants no more.
    is_final: bool,
    retry_after: Option<Duration>,
}

impl Sender {
    pub(crate) fn new(outbox: Outbox, endpoint: Endpoint) -> Result<Self> {
        let Endpoint { url, secret, backoff, tries } = endpoint;
        ensure!(url.scheme() == "http", "--webhook-url must begin with http://");
        let key = secret.key().context("--webhook-secret")?;
        let backoff = ExponentialBuilder::default()
            .with_min_delay(backoff)
            .with_max_delay(MAX_WAIT.max(backoff))
            .with_max_times(tries.saturating_sub(1))
            .with_jitter();
        let client = Client::builder()
            .timeout(PATIENCE)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .build()
            .context("the client for webhooks")?;
        Ok(Self(Arc::new(Inner {
            outbox,
            url,
            key,
            backoff,
            client,
            clock: SystemClock::new(),
            slots: Semaphore::new(MAX_AT_ONCE),
            deliveries: TaskTracker::new(),
            closing: CancellationToken::new(),
        })))
    }

    /// Sends what is put into the outbox, until the sender is closed.
    pub(crate) fn start(&self) {
        let sender = self.clone();
        self.0.deliveries.spawn(async move {
            let Inner { outbox, closing, .. } = &*sender.0;
            while closing.run_until_cancelled(outbox.added()).await.is_some() {
                sender.deliver_new();
            }
            sender.deliver_new();
        });
    }

    /// Gives each event that has not been sent one try, and ends those that wait for their next; how many
    /// were not delivered.
    pub(crate) async fn close(&self) -> usize {
        self.0.closing.cancel();
        self.0.deliveries.close();
        self.0.deliveries.wait().await;
        self.0.outbox.waiting()
    }

    fn deliver_new(&self) {
        for event in self.0.outbox.take() {
            let sender = self.clone();
            self.0.deliveries.spawn(async move { sender.deliver(&event).await });
        }
    }

    async fn deliver(&self, event: &Event) {
        let Inner { outbox, backoff, closing, .. } = &*self.0;
        let mut waits = backoff.build();
        loop {
            let Err(failure) = self.try_once(event).await else {
                return outbox.tried(event, State::Delivered, None);
            };
            let Some(wait) = waits.next().filter(|_| !failure.is_final) else {
                tracing::warn!(event = event.id, failure = failure.what, "a webhook is given up");
                return outbox.tried(event, State::GivenUp, Some(failure.what));
            };
            tracing::info!(event = event.id, failure = failure.what, "a webhook is tried again");
            outbox.tried(event, State::Waiting, Some(failure.what));
            let wait = failure.retry_after.map_or(wait, |told| wait.max(told.min(MAX_WAIT)));
            if closing.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
        }
    }

    async fn try_once(&self, event: &Event) -> Result<(), Failure> {
        let Inner { client, clock, key, slots, url, .. } = &*self.0;
        let _slot = slots.acquire().await.map_err(|error| Failure::passing(error.to_string()))?;
        let timestamp = (clock.now().as_unix_millis() / 1_000).to_string();
        let signature = signature::of(key, &event.id, &timestamp, &event.body);
        let request = client
            .post(url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", &event.id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(event.body.clone());
        // its error names the URL, which may hold a password
        let answer = request.send().await.map_err(|e| Failure::passing(told(&e.without_url())))?;
        Failure::of(&answer).map_or(Ok(()), Err)
    }
}

impl Failure {
    const fn passing(what: String) -> Self {
        Self { what, is_final: false, retry_after: None }
    }

    /// Whatever is not 2xx; 410 says that the endpoint is no more.
    fn of(answer: &reqwest::Response) -> Option<Self> {
        let status = answer.status();
        let seconds =
            answer.headers().get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        (!status.is_success()).then(|| Self {
            what: status.to_string(),
            is_final: status == StatusCode::GONE,
            retry_after: seconds.map(Duration::from_secs),
        })
    }
}

/// An error with what led to it.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}
