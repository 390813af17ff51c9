use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hmac::Hmac;
use http::{StatusCode, header};
use idempotency::Timestamp;
use reqwest::{Client, Url, redirect};
use sha2::Sha256;

use super::{Event, Secret, signature};

/// Where webhooks go, and how hard it is tried.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) secret: Secret,
    /// How long it has for an answer.
    pub(crate) timeout: Duration,
    /// The wait after the first try; each further one is twice as long, plus up to as much again.
    pub(crate) backoff: Duration,
    pub(crate) tries: usize,
}

/// A client for one endpoint.
#[derive(Debug)]
pub(super) struct Caller {
    client: Client,
    url: Url,
    key: Hmac<Sha256>,
}

/// Why a try did not deliver.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) what: String,
    /// The endpoint wants no more.
    pub(super) is_final: bool,
    pub(super) retry_after: Option<Duration>,
}

impl Caller {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self> {
        ensure!(endpoint.url.scheme() == "http", "--webhook-url must begin with http://");
        let key = endpoint.secret.key().context("--webhook-secret")?;
        let client = Client::builder()
            .timeout(endpoint.timeout)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .build()
            .context("the client for webhooks")?;
        Ok(Self { client, url: endpoint.url.clone(), key })
    }

    /// Sends an event, once.
    pub(super) async fn send(&self, event: &Event, now: Timestamp) -> Result<(), Failure> {
        let timestamp = (now.as_unix_millis() / 1_000).to_string();
        let signature = signature::of(&self.key, &event.id, &timestamp, &event.body);
        let request = self
            .client
            .post(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", &event.id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(event.body.clone());
        // its error names the URL, which may hold a password
        let answer =
            request.send().await.map_err(|error| Failure::passing(&error.without_url()))?;
        Failure::of(&answer).map_or(Ok(()), Err)
    }
}

impl Failure {
    /// An error with what led to it.
    fn passing(error: &dyn std::error::Error) -> Self {
        let causes = std::iter::successors(error.source(), |error| error.source());
        let what = causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"));
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
