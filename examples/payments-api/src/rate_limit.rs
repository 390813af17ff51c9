//! How many requests an account may make. Stands outside the idempotency layer, so that what is refused
//! here never touches a key.

use std::{
    fmt,
    num::NonZeroU32,
    str::FromStr,
    sync::{Arc, Weak},
    time::Duration,
};

use anyhow::{Context, Result};
use axum::{
    Router,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Request, StatusCode, header};
use tower_governor::{
    GovernorError, GovernorLayer, governor::GovernorConfigBuilder, key_extractor::KeyExtractor,
};

use crate::{account::Account, problem};

/// So many requests at once, and as many more in each `per`, evenly spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// At once.
    pub requests: NonZeroU32,
    /// The time in which all of them come back; at least a nanosecond for each.
    pub per: Duration,
}

/// How often accounts that have not asked for a while are forgotten.
const FORGET_EVERY: Duration = Duration::from_mins(1);

/// A wrapper for routers: limits the requests to all of them together, by account.
pub(crate) fn by_account<S>(limit: RateLimit) -> Result<impl Fn(Router<S>) -> Router<S>>
where
    S: Clone + Send + Sync + 'static,
{
    let mut builder = GovernorConfigBuilder::default();
    builder.period(limit.per / limit.requests.get()).burst_size(limit.requests.get());
    let config = builder.key_extractor(ByAccount).finish().context("the rate limit is too high")?;
    let limiter = Arc::downgrade(config.limiter());
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method belongs to a crate that is no dependency of ours"
    )]
    tokio::spawn(forgetting(limiter, |limiter| limiter.retain_recent()));
    let layer = GovernorLayer::new(config).error_handler(|error| refused(&error));
    Ok(move |router: Router<S>| router.route_layer(layer.clone()))
}

/// Tokens are free to invent here, so what is kept of accounts must not grow for ever.
async fn forgetting<T: Send + Sync>(limiter: Weak<T>, forget: fn(&T)) {
    loop {
        tokio::time::sleep(FORGET_EVERY).await;
        match limiter.upgrade() {
            Some(limiter) => forget(&limiter),
            None => return,
        }
    }
}

/// The account, whichever of its tokens was used.
#[derive(Clone, Copy, Debug)]
struct ByAccount;

impl KeyExtractor for ByAccount {
    type Key = String;

    fn extract<T>(&self, request: &Request<T>) -> Result<String, GovernorError> {
        let account = request.extensions().get::<Account>();
        account.map(|account| account.name().to_owned()).ok_or(GovernorError::UnableToExtractKey)
    }
}

fn refused(error: &GovernorError) -> Response {
    let GovernorError::TooManyRequests { wait_time, .. } = error else {
        let detail = "The request has no account to count it for.";
        return problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response();
    };
    let detail = "The account has made too many requests. Nothing was done, and the key was not \
                  touched; repeat the request under the same key after the time in `Retry-After`.";
    let refused = problem::new(StatusCode::TOO_MANY_REQUESTS, "rate-limited", detail);
    // the limiter tells whole seconds, rounded down
    let after = HeaderValue::from(wait_time.saturating_add(1));
    ([(header::RETRY_AFTER, after)], refused).into_response()
}

impl FromStr for RateLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a rate; write it like 100/1s or 5/1m");
        let (requests, per) = text.split_once('/').ok_or_else(wrong)?;
        let requests: NonZeroU32 = requests.parse().map_err(|_| wrong())?;
        let per = humantime::parse_duration(per).map_err(|_| wrong())?;
        if (per / requests.get()).is_zero() {
            return Err(wrong());
        }
        Ok(Self { requests, per })
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.requests, humantime::format_duration(self.per))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_written_as_requests_and_a_time() {
        let parsed: RateLimit = "100/1s".parse().unwrap();
        assert_eq!((parsed.requests.get(), parsed.per), (100, Duration::from_secs(1)));
        assert_eq!(parsed.to_string().parse(), Ok(parsed));
        for bad in ["", "100", "0/1s", "x/1s", "1/soon", "1/0s", "-1/1s", "2/1ns"] {
            let refused = bad.parse::<RateLimit>().unwrap_err();
            assert!(refused.contains("100/1s"), "{refused}");
        }
    }
}
