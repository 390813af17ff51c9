use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};

use crate::CurrentAttempt;

impl<S: Sync> FromRequestParts<S> for CurrentAttempt {
    type Rejection = NoAttempt;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoAttempt> {
        parts.extensions.get().cloned().ok_or(NoAttempt)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for CurrentAttempt {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
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
