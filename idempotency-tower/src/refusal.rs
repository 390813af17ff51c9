use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, Uri, header};
use http_body::Body;
use idempotency_core::{Error, ErrorKind, NotKeptReason, Running};
use problem_details::ProblemDetails;

use crate::{HttpBody, Profile, key::KeyFault};

/// Why a request is not answered by the handler, nor with its stored answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoPrincipal,
    KeyMissing,
    KeyInvalid(KeyFault),
    BodyTooLarge { max: usize },
    BodyUnreadable,
    InProgress(Running),
    Mismatch,
    OutcomeUnknown,
    NotKept(NotKeptReason),
    StoreUnavailable,
    Overloaded,
    ShuttingDown,
    RecordUnreadable,
    RolledBack,
}

/// Where each problem type is explained. A stable part of the answers.
const TYPES: &str = "https://github.com/idempotency-rs/idempotency/blob/main/docs/problems/";

/// When the server cannot tell when it will be better.
const SOON: Duration = Duration::from_secs(1);

/// What a problem says, beside its detail.
struct Row {
    name: &'static str,
    title: &'static str,
    status: StatusCode,
    retry_after: Option<Duration>,
}

impl Refusal {
    /// The executor could not say what became of the request. The handler was not run.
    pub(crate) const fn of_error(error: &Error) -> Self {
        match error {
            Error::Answer(_) => Self::RecordUnreadable,
            Error::Store(error) if matches!(error.kind(), ErrorKind::Corrupt) => {
                Self::RecordUnreadable
            }
            _ => Self::StoreUnavailable,
        }
    }

    pub(crate) fn into_response<B>(self, profile: &Profile) -> Response<HttpBody<B>>
    where
        B: Body<Data = Bytes>,
    {
        let row = self.row(profile);
        let body = problem(&row, self.detail(profile));
        let mut response = Response::new(HttpBody::held(body, None));
        *response.status_mut() = row.status;
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(after) = row.retry_after {
            headers.insert(header::RETRY_AFTER, whole_seconds(after).into());
        }
        response
    }

    fn row(self, profile: &Profile) -> Row {
        let statuses = &profile.statuses;
        let row = |name, title, status| Row { name, title, status, retry_after: None };
        match self {
            Self::NoPrincipal => {
                row("no-principal", "The caller is not known", StatusCode::UNAUTHORIZED)
            }
            Self::KeyMissing => {
                row("key-missing", "An idempotency key is required", statuses.key_missing)
            }
            Self::KeyInvalid(_) => {
                row("key-invalid", "The idempotency key cannot be used", statuses.key_invalid)
            }
            Self::BodyTooLarge { .. } => row(
                "body-too-large",
                "The request body is too large",
                StatusCode::PAYLOAD_TOO_LARGE,
            ),
            Self::BodyUnreadable => row(
                "body-unreadable",
                "The request body could not be read",
                StatusCode::BAD_REQUEST,
            ),
            Self::InProgress(running) => Row {
                retry_after: Some(running.retry_after()),
                ..row("in-progress", "The request is still being processed", statuses.in_progress)
            },
            Self::Mismatch => row(
                "key-reused",
                "The idempotency key belongs to another request",
                statuses.mismatch,
            ),
            Self::OutcomeUnknown => row(
                "outcome-unknown",
                "The outcome of the request is not known",
                statuses.outcome_unknown,
            ),
            Self::NotKept(_) => row(
                "answer-not-kept",
                "The request is done, its answer was not kept",
                statuses.not_kept,
            ),
            Self::RecordUnreadable => row(
                "record-unreadable",
                "The record of the request cannot be read",
                StatusCode::INTERNAL_SERVER_ERROR,
            ),
            Self::RolledBack => row(
                "rolled-back",
                "What the request wrote was rolled back",
                StatusCode::INTERNAL_SERVER_ERROR,
            ),
            Self::StoreUnavailable => {
                unavailable("store-unavailable", "The request cannot be protected at the moment")
            }
            Self::Overloaded => unavailable("overloaded", "Too many requests at the moment"),
            Self::ShuttingDown => unavailable("shutting-down", "The server is going away"),
        }
    }

    fn detail(self, profile: &Profile) -> Cow<'static, str> {
        let header = profile.key_header.as_str();
        match self {
            Self::NoPrincipal => {
                "Keys belong to an account, and this request names none. Authenticate, then \
                 repeat it under the same key."
                    .into()
            }
            Self::KeyMissing => format!(
                "Repeat the request with a `{header}` header that is new for each operation."
            )
            .into(),
            Self::KeyInvalid(fault) => fault.detail(header),
            Self::BodyTooLarge { max } => format!(
                "With an idempotency key the body may have at most {max} bytes. Nothing was done."
            )
            .into(),
            Self::BodyUnreadable => "It broke off before its end. Nothing was done.".into(),
            Self::InProgress(_) => {
                "The first request under this key is still running. Repeat this one under the same \
                 key after the time in `Retry-After`."
                    .into()
            }
            Self::Mismatch => {
                "This key was used for a request with another method, path, query or body. Use a \
                 new key for a new operation."
                    .into()
            }
            Self::OutcomeUnknown => {
                "An earlier request under this key may have been carried out, and is not repeated \
                 by itself. Look up what became of it."
                    .into()
            }
            Self::NotKept(reason) => not_kept(reason).into(),
            Self::StoreUnavailable | Self::Overloaded | Self::ShuttingDown => {
                "Nothing was done. Repeat the request under the same key after the time in \
                 `Retry-After`."
                    .into()
            }
            Self::RecordUnreadable => {
                "What is stored for this key was not written by this service, or by a newer \
                 release. The request was not carried out again."
                    .into()
            }
            Self::RolledBack => {
                "The request was carried out, and its transaction was not committed. Repeat it under \
                 the same key."
                    .into()
            }
        }
    }
}

fn not_kept(reason: NotKeptReason) -> &'static str {
    match reason {
        NotKeptReason::TooLarge => {
            "The request under this key was carried out. Its answer was too large to be kept; look \
             up what it did."
        }
        NotKeptReason::Stream => {
            "The request under this key was carried out. Its answer was a stream and was not kept; \
             look up what it did."
        }
        NotKeptReason::Broken => {
            "The request under this key was carried out. Its answer broke off and was not kept; \
             look up what it did."
        }
        _ => {
            "The request under this key was carried out. Its answer was not kept; look up what it \
             did."
        }
    }
}

const fn unavailable(name: &'static str, title: &'static str) -> Row {
    Row { name, title, status: StatusCode::SERVICE_UNAVAILABLE, retry_after: Some(SOON) }
}

fn problem(row: &Row, detail: Cow<'static, str>) -> Bytes {
    let mut problem =
        ProblemDetails::new().with_status(row.status).with_title(row.title).with_detail(detail);
    if let Ok(uri) = Uri::try_from([TYPES, row.name, ".md"].concat()) {
        problem = problem.with_type(uri);
    }
    serde_json::to_vec(&problem).unwrap_or_default().into()
}

/// Rounded up: a client that waits as long as it was told has waited long enough.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

impl KeyFault {
    fn detail(self, header: &str) -> Cow<'static, str> {
        match self {
            Self::Repeated => format!("`{header}` was sent more than once; send it once."),
            Self::Empty => format!("`{header}` is empty or blank."),
            Self::TooLong { bytes, max } => {
                format!("The key in `{header}` has {bytes} bytes; at most {max} are accepted.")
            }
            Self::NotPrintable { at } => {
                format!("`{header}` has a byte outside printable ASCII at position {at}.")
            }
            Self::NotAString => format!(
                "`{header}` begins with a quotation mark and is not one structured-field string \
                 (RFC 9651)."
            ),
            Self::Parameters => {
                format!("`{header}` has parameters after the key; send the key alone.")
            }
            Self::Ambiguous { character } => format!(
                "`{header}` contains `{character}`, which a bare key cannot: put the key in \
                 quotation marks."
            ),
        }
        .into()
    }
}

#[cfg(test)]
mod tests;
