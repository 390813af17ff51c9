use std::{net::SocketAddr, time::Duration};

use clap::Parser;
use idempotency::{Lease, Retention};

use crate::{RateLimit, Secret, webhooks::Endpoint};

/// A payments API on loopback: each charge happens once, whatever clients repeat.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// Where the keys are kept
    #[arg(long, value_name = "URL", default_value = "memory:")]
    pub store: String,

    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// How long a claim holds without renewal
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lease)]
    pub lease: Lease,

    /// How long an answer is replayed
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = retention)]
    pub retention: Retention,

    /// The longest answer that is kept
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub max_response_bytes: usize,

    /// The longest request body
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub max_request_bytes: usize,

    /// How many requests an account may make at once, and the time in which they come back
    #[arg(long, value_name = "REQUESTS/TIME", default_value = "100/1s")]
    pub rate_limit: RateLimit,

    /// Where `charge.succeeded` is sent to; without it, nowhere
    #[arg(long, value_name = "URL", requires = "webhook_secret")]
    pub webhook_url: Option<reqwest::Url>,

    /// What webhooks are signed with: `whsec_` and 24 to 64 bytes in base64
    #[arg(long, value_name = "SECRET", env = "WEBHOOK_SECRET", hide_env_values = true)]
    pub webhook_secret: Option<Secret>,

    /// How long the receiver of a webhook has for its answer
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = up_to_a_day)]
    pub webhook_timeout: Duration,

    /// How long a webhook waits for its second try; each further wait is twice as long, with jitter
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = up_to_a_day)]
    pub webhook_backoff: Duration,

    /// How often a webhook is tried
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub webhook_tries: usize,
}

impl Arguments {
    /// Where webhooks go, if anywhere.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        Some(Endpoint {
            url: self.webhook_url.clone()?,
            secret: self.webhook_secret.clone()?,
            timeout: self.webhook_timeout,
            backoff: self.webhook_backoff,
            tries: self.webhook_tries,
        })
    }

    /// What a user needs to know, with something to paste.
    pub(crate) fn greeting(&self, address: SocketAddr) -> String {
        format!(
            "payments-api listens on http://{address}, keys are kept in {store}\n\
             try it, twice:\n\n  \
             curl -i http://{address}/v1/charges -H 'authorization: Bearer sk_test_acme' \
             -H 'idempotency-key: order-1' -H 'content-type: application/json' \
             -d '{{\"amount\":500,\"currency\":\"eur\",\"source\":\"tok_visa\",\"customer\":\"cus_1\"}}'\n\n\
             and see what was charged:\n\n  \
             curl http://{address}/ledger\n",
            store = without_password(&self.store),
        )
    }
}

/// What stands between the scheme and the last `@` is a secret.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it like 30s, 5m or 24h"))
}

fn up_to_a_day(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time <= Duration::from_hours(24) => Ok(time),
        _ => Err("it must be 24h at most".to_owned()),
    }
}

fn lease(text: &str) -> Result<Lease, String> {
    Lease::new(duration(text)?).map_err(|error| error.to_string())
}

fn retention(text: &str) -> Result<Retention, String> {
    Retention::new(duration(text)?).map_err(|error| error.to_string())
}
