use std::time::Duration;

use aws_sdk_dynamodb::{
    Client,
    config::{
        BehaviorVersion, Builder, Credentials, Region, StalledStreamProtectionConfig,
        retry::{RetryConfig, RetryPartition},
        timeout::TimeoutConfig,
    },
};
use idempotency_core::{ErrorKind, Operation, StoreError};

/// Where the service is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) region: Option<String>,
    pub(crate) endpoint: Option<String>,
}

/// Tries of one request. The pauses between them are short: the executor above repeats as well.
const TRIES: u32 = 3;

/// A client whose tries all fit into `timeout`.
pub(crate) async fn client(place: &Place, timeout: Duration) -> Result<Client, StoreError> {
    let config = match &place.endpoint {
        Some(endpoint) if endpoint.starts_with("http://") => plain(endpoint, place),
        _ => encrypted(place).await?,
    };
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(timeout.mul_f64(0.3))
        .operation_attempt_timeout(timeout.mul_f64(0.3))
        .operation_timeout(timeout.mul_f64(0.95))
        .build();
    let retries = RetryConfig::standard()
        .with_max_attempts(TRIES)
        .with_initial_backoff(Duration::from_millis(25))
        .with_max_backoff(Duration::from_millis(250));
    let config = config
        .timeout_config(timeouts)
        .retry_config(retries)
        // the driver's clients of one region share a budget of repetitions; one in trouble must not use
        // up that of another
        .retry_partition(RetryPartition::custom("idempotency").build())
        // replies are small, and each try has its time-out
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .build();
    Ok(Client::from_conf(config))
}

/// An endpoint without TLS: an emulator.
fn plain(endpoint: &str, place: &Place) -> Builder {
    let of_environment = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let id = of_environment("AWS_ACCESS_KEY_ID").unwrap_or_else(|| "local".to_owned());
    let secret = of_environment("AWS_SECRET_ACCESS_KEY").unwrap_or_else(|| "local".to_owned());
    let token = of_environment("AWS_SESSION_TOKEN");
    let region = place.region.clone().unwrap_or_else(|| "us-east-1".to_owned());
    Builder::new()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .credentials_provider(Credentials::new(id, secret, token, None, "idempotency"))
        .region(Region::new(region))
        .endpoint_url(endpoint)
}

/// The service itself, as the AWS tools find it.
#[cfg(feature = "aws-config")]
async fn encrypted(place: &Place) -> Result<Builder, StoreError> {
    use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    if let Some(region) = &place.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(endpoint) = &place.endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    let config = loader.load().await;
    if config.region().is_none() {
        return Err(refused("no region: name it in the store URL (`?region=`) or in AWS_REGION"));
    }
    Ok(Builder::from(&config))
}

#[cfg(not(feature = "aws-config"))]
async fn encrypted(_: &Place) -> Result<Builder, StoreError> {
    std::future::ready(Err(refused(
        "the credential chain and TLS need the feature `aws-config`, which is off: switch it on, name \
         an endpoint that begins with `http://`, or hand in a client of your own",
    )))
    .await
}

fn refused(detail: &'static str) -> StoreError {
    StoreError::new(Operation::Connect, ErrorKind::Invalid, detail).without_effect()
}
