use std::{convert::Infallible, ops::Deref};

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use idempotency_core::Attempt;

/// The attempt that a handler runs as: its number, the digest of its key, the checkpoint of an
/// earlier one, and a way to save one.
///
/// For routes that also take requests without a key extract `Option<CurrentAttempt>`.
///
/// ```
/// use axum::http::StatusCode;
/// use idempotency_tower::CurrentAttempt;
///
/// async fn create_charge(attempt: CurrentAttempt) -> Result<String, StatusCode> {
///     attempt
///         .save_checkpoint("charged")
///         .await
///         .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
///     Ok(format!("attempt {} of {}", attempt.number(), attempt.key_digest()))
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(create_charge);
/// ```
#[derive(Clone, Debug)]
pub struct CurrentAttempt(pub Attempt);

impl Deref for CurrentAttempt {
    type Target = Attempt;

    fn deref(&self) -> &Attempt {
        &self.0
    }
}

impl<S: Sync> FromRequestParts<S> for CurrentAttempt {
    type Rejection = NoAttempt;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoAttempt> {
        let attempt = parts.extensions.get::<Attempt>();
        attempt.cloned().map(Self).ok_or(NoAttempt)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for CurrentAttempt {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<Attempt>().cloned().map(Self))
    }
}

/// The request came without a key, or its route is not inside the layer. Answered with 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no attempt: the request has no idempotency key, or its route is not inside the layer")]
pub struct NoAttempt;

impl IntoResponse for NoAttempt {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response()
    }
}
