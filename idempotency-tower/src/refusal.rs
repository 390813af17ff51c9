use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use http_body::Body;
use idempotency_core::{Error, ErrorKind, NotKeptReason, Running};
use problem_details::ProblemDetails;
use serde::Serialize;

use crate::{HttpBody, KeySource, Profile, grpc, key::KeyFault};

/// Why a request is not answered by the handler, nor with its stored answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoPrincipal,
    KeyMissing,
    KeyInvalid(KeyFault),
    BodyTooLarge { max: usize },
    BodyTooSlow { limit: Duration },
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

/// In what form a refusal is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// As problem details.
    Http,
    Grpc(grpc::Dialect),
}

impl Asking {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        grpc::Dialect::of(headers).map_or(Self::Http, Self::Grpc)
    }
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
    code: Option<Cow<'static, str>>,
}

/// What providers add to problem details.
#[derive(Serialize)]
struct Extensions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
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

    /// The answer to a request of this kind.
    pub(crate) fn answer_to<B>(self, request: Asking, profile: &Profile) -> Response<HttpBody<B>>
    where
        B: Body<Data = Bytes>,
    {
        match request {
            Asking::Http => self.into_response(profile),
            Asking::Grpc(dialect) => grpc::refused(self, dialect, profile),
        }
    }

    /// How long to wait before the request is repeated; none: that does not help.
    pub(crate) fn retry_after(self, profile: &Profile) -> Option<Duration> {
        self.row(profile).retry_after
    }

    fn into_response<B>(self, profile: &Profile) -> Response<HttpBody<B>>
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
            if let Some((name, value)) = &profile.markers.transient {
                headers.insert(name, value.clone());
            }
        }
        response
    }

    fn row(self, profile: &Profile) -> Row {
        let (statuses, codes) = (&profile.statuses, &profile.codes);
        let row = |name, title, status| Row { name, title, status, retry_after: None, code: None };
        match self {
            Self::NoPrincipal => {
                row("no-principal", "The caller is not known", StatusCode::UNAUTHORIZED)
            }
            Self::KeyMissing => Row {
                code: codes.key_missing.clone(),
                ..row("key-missing", "An idempotency key is required", statuses.key_missing)
            },
            Self::KeyInvalid(_) => {
                row("key-invalid", "The idempotency key cannot be used", statuses.key_invalid)
            }
            Self::BodyTooLarge { .. } => row(
                "body-too-large",
                "The request body is too large",
                StatusCode::PAYLOAD_TOO_LARGE,
            ),
            Self::BodyTooSlow { .. } => {
                row("body-too-slow", "The request body took too long", StatusCode::REQUEST_TIMEOUT)
            }
            Self::BodyUnreadable => row(
                "body-unreadable",
                "The request body could not be read",
                StatusCode::BAD_REQUEST,
            ),
            Self::InProgress(running) => Row {
                retry_after: Some(running.retry_after()),
                code: codes.in_progress.clone(),
                ..row("in-progress", "The request is still being processed", statuses.in_progress)
            },
            Self::Mismatch => Row {
                code: codes.mismatch.clone(),
                ..row(
                    "key-reused",
                    "The idempotency key belongs to another request",
                    statuses.mismatch,
                )
            },
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
            Self::StoreUnavailable => Row {
                code: codes.store_unavailable.clone(),
                ..unavailable("store-unavailable", "The request cannot be protected at the moment")
            },
            Self::Overloaded => unavailable("overloaded", "Too many requests at the moment"),
            Self::ShuttingDown => unavailable("shutting-down", "The server is going away"),
        }
    }

    pub(crate) fn detail(self, profile: &Profile) -> Cow<'static, str> {
        match self {
            Self::NoPrincipal => {
                "Keys belong to an account, and this request names none. Authenticate, then \
                 repeat it under the same key."
                    .into()
            }
            Self::KeyMissing => missing(&profile.key_source),
            Self::KeyInvalid(fault) => fault.detail(&profile.key_source.place()),
            Self::BodyTooLarge { max } => format!(
                "With an idempotency key the body may have at most {max} bytes. Nothing was done."
            )
            .into(),
            Self::BodyTooSlow { limit } => format!(
                "With an idempotency key the body has to arrive within {}. Nothing was done.",
                seconds(limit)
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

fn missing(source: &KeySource) -> Cow<'static, str> {
    match source {
        KeySource::Header(name) => {
            format!("Repeat the request with a `{name}` header that is new for each operation.")
        }
        source => {
            format!("Repeat the request with {} that is new for each operation.", source.place())
        }
    }
    .into()
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
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
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Row { name, title, status, retry_after: Some(SOON), code: None }
}

fn problem(row: &Row, detail: Cow<'static, str>) -> Bytes {
    let mut problem = ProblemDetails::new()
        .with_status(row.status)
        .with_title(row.title)
        .with_detail(detail)
        .with_extensions(Extensions { code: row.code.as_deref() });
    if let Ok(uri) = Uri::try_from([TYPES, row.name, ".md"].concat()) {
        problem = problem.with_type(uri);
    }
    serde_json::to_vec(&problem).unwrap_or_default().into()
}

/// Rounded up: a client that waits as long as it was told has waited long enough.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests;
