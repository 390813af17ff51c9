use std::{fmt, ops::Deref, sync::Arc};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use idempotency_core::{Answer, Attempt, Retention};

use crate::{HttpBody, capture::capture, config::Config, joined::Prepared, stored_response};

/// The attempt that a handler runs as: its number, the digest of its key, the checkpoint of an
/// earlier one, a way to save one, and a way to join it to a transaction of the handler's own.
///
/// An extractor with the feature `axum`; for routes that also take requests without a key extract
/// `Option<CurrentAttempt>`. Else it is an extension of the request.
///
#[cfg_attr(feature = "axum", doc = "```")]
#[cfg_attr(not(feature = "axum"), doc = "```ignore")]
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
#[derive(Clone)]
pub struct CurrentAttempt {
    attempt: Attempt,
    config: Arc<Config>,
}

impl CurrentAttempt {
    pub(crate) const fn new(attempt: Attempt, config: Arc<Config>) -> Self {
        Self { attempt, config }
    }

    /// The answer that the layer stores for `response`, for a store that commits it together with what
    /// the handler has written (`PostgresStore::complete_in`), and the response itself: to be returned
    /// once that is committed.
    ///
    /// Reads the body as the layer does. One that is too large, or a stream, becomes the fact that the
    /// request is done. Whatever status the response has, it is final when it is committed.
    ///
    /// The layer then looks what became of the transaction. Committed: the client gets this answer, now
    /// and in every repetition, also when the handler took a failed commit for a failure. Not
    /// committed: what the handler returns instead is treated as ever; this response itself, which
    /// speaks of what is not there, is answered with 500 and runs again. It is known by an extension, so
    /// layers in between may change its head.
    pub async fn answer_of<R>(&self, response: Response<R>) -> (Answer, Response<HttpBody<R>>)
    where
        R: Body<Data = Bytes>,
    {
        let (mut head, body) = response.into_parts();
        if let Some(&retention) = head.extensions.get::<Retention>() {
            self.attempt.set_joined_retention(retention);
        }
        let body = capture(&head.headers, body, self.config.bounds()).await;
        let answer = stored_response::answer(&head, &body, &self.config);
        head.extensions.insert(Prepared(answer.clone()));
        (answer, Response::from_parts(head, body.into_body()))
    }
}

impl Deref for CurrentAttempt {
    type Target = Attempt;

    fn deref(&self) -> &Attempt {
        &self.attempt
    }
}

impl fmt::Debug for CurrentAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CurrentAttempt").field(&self.attempt).finish()
    }
}
