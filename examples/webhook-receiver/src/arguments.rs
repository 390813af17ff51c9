use std::{net::SocketAddr, time::Duration};

use clap::Parser;
use idempotency::Lease;

use crate::Secret;

/// Receives webhooks on loopback: each event is handled once, however often it is delivered.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// Where the ids of events are kept
    #[arg(long, value_name = "URL", default_value = "memory:")]
    pub store: String,

    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    pub listen: SocketAddr,

    /// How long a claim holds without renewal
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lease)]
    pub lease: Lease,

    /// What Standard Webhooks are signed with, `whsec_…`; several while the sender changes it
    #[arg(long, value_name = "SECRET", env = "WEBHOOK_SECRET", hide_env_values = true)]
    #[arg(value_delimiter = ',')]
    pub secret: Vec<Secret>,

    /// What Stripe signs with, `whsec_…`; several while it is changed
    #[arg(long, value_name = "SECRET", env = "STRIPE_WEBHOOK_SECRET", hide_env_values = true)]
    #[arg(value_delimiter = ',')]
    pub stripe_secret: Vec<Secret>,

    /// How long the body of a delivery may take to arrive
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub body_timeout: Duration,

    /// How many deliveries fail before the first that is handled
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub fail_first: usize,

    /// How long it takes to handle an event
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub work: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it like 30s, 5m or 24h"))
}

fn lease(text: &str) -> Result<Lease, String> {
    Lease::new(duration(text)?).map_err(|error| error.to_string())
}
