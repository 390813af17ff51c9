//! gRPC: what it says of an answer stands in its trailers, and refusals have codes of their own.

mod web;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::Body;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::{HttpBody, Profile, capture::Captured, refusal::Refusal};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// How long to wait, in milliseconds (gRFC A6).
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// What a message is not written in as it is; beside it all that is not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// How gRPC is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Grpc,
    /// For browsers: the trailers are the last piece of the body.
    Web,
    /// The same in base64.
    WebText,
}

impl Dialect {
    /// None: this is no gRPC.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let kind = headers.get(header::CONTENT_TYPE)?.as_bytes();
        let rest = kind.strip_prefix(Self::Grpc.content_type().as_bytes())?;
        let (dialect, rest) = if let Some(rest) = rest.strip_prefix(b"-web-text") {
            (Self::WebText, rest)
        } else if let Some(rest) = rest.strip_prefix(b"-web") {
            (Self::Web, rest)
        } else {
            (Self::Grpc, rest)
        };
        matches!(rest.first(), None | Some(b'+' | b';')).then_some(dialect)
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Grpc => "application/grpc",
            Self::Web => "application/grpc-web",
            Self::WebText => "application/grpc-web-text",
        }
    }
}

/// The HTTP status that says what the status of a gRPC answer does. None: its end has not come, or it is
/// no gRPC.
pub(crate) fn status<R>(headers: &HeaderMap, body: &Captured<R>) -> Option<StatusCode>
where
    R: Body<Data = Bytes>,
{
    let dialect = Dialect::of(headers)?;
    // an answer without messages has its trailers in its head
    let code = match (headers.get(&STATUS), body) {
        (Some(code), _) => number(code.as_bytes()),
        (None, Captured::Whole { data, .. }) if dialect != Dialect::Grpc => {
            web::status(data, dialect)
        }
        (None, Captured::Whole { trailers: Some(trailers), .. }) => {
            number(trailers.get(&STATUS)?.as_bytes())
        }
        _ => None,
    };
    StatusCode::from_u16(as_http(code?)).ok()
}

fn number(code: &[u8]) -> Option<u16> {
    str::from_utf8(code).ok()?.trim().parse().ok()
}

/// As the status codes of gRPC are explained: what may be tried again passes by itself.
const fn as_http(code: u16) -> u16 {
    match code {
        0 => 200,
        // INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE
        3 | 9 | 11 => 400,
        // NOT_FOUND
        5 => 404,
        // ALREADY_EXISTS
        6 => 409,
        // PERMISSION_DENIED
        7 => 403,
        // RESOURCE_EXHAUSTED
        8 => 429,
        // UNAUTHENTICATED
        16 => 401,
        // ABORTED, UNAVAILABLE
        10 | 14 => 503,
        // CANCELLED, DEADLINE_EXCEEDED
        1 | 4 => 504,
        _ => 500,
    }
}

/// The code of a refusal.
const fn code(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::KeyMissing | Refusal::KeyInvalid(_) | Refusal::BodyUnreadable => 3,
        Refusal::BodyTooSlow { .. } => 4,
        // it is done
        Refusal::NotKept(_) => 6,
        Refusal::BodyTooLarge { .. } => 8,
        // not to be tried again as it is
        Refusal::Mismatch | Refusal::OutcomeUnknown => 9,
        // to be tried again
        Refusal::InProgress(_) => 10,
        Refusal::RecordUnreadable | Refusal::RolledBack => 13,
        Refusal::StoreUnavailable | Refusal::Overloaded | Refusal::ShuttingDown => 14,
        Refusal::NoPrincipal => 16,
    }
}

/// A refusal as gRPC has it: all in the head.
pub(crate) fn refused<R>(
    refusal: Refusal,
    dialect: Dialect,
    profile: &Profile,
) -> Response<HttpBody<R>>
where
    R: Body<Data = Bytes>,
{
    let mut response = Response::new(HttpBody::held(Bytes::new(), None));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(dialect.content_type()));
    headers.insert(STATUS, code(refusal).into());
    let detail = refusal.detail(profile);
    let message = utf8_percent_encode(&detail, ESCAPED).to_string();
    if let Ok(message) = HeaderValue::try_from(message) {
        headers.insert(MESSAGE, message);
    }
    if let Some(after) = refusal.retry_after(profile) {
        headers.insert(PUSHBACK, u64::try_from(after.as_millis()).unwrap_or(u64::MAX).into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_known_by_its_content_type() {
        let headers = |kind: &'static str| {
            HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))])
        };
        for (dialect, suffix) in
            [(Dialect::Grpc, ""), (Dialect::Web, "-web"), (Dialect::WebText, "-web-text")]
        {
            assert_eq!(dialect.content_type(), format!("application/grpc{suffix}"));
            for more in ["", "+proto", ";a=b"] {
                let kind = format!("application/grpc{suffix}{more}").leak();
                assert_eq!(Dialect::of(&headers(kind)), Some(dialect), "{kind}");
            }
        }
        for kind in [
            "application/json",
            "application/grpcs",
            "application/grpc-",
            "application/grpc-webs",
            "application/grpc-web-texts",
            "",
        ] {
            assert_eq!(Dialect::of(&headers(kind)), None, "{kind}");
        }
        assert_eq!(Dialect::of(&HeaderMap::new()), None);
    }

    /// Kind of fault: a call that could be tried again is replayed for a day (H-19), since its HTTP status
    /// is 200 all the same.
    #[test]
    fn what_may_be_tried_again_is_not_final() {
        use idempotency_core::{Disposition, ResultPolicy, Takeover};
        let is_final = |code| {
            ResultPolicy::Transient.of_status(as_http(code), Takeover::Allow) == Disposition::Store
        };
        let finals: Vec<_> = (0..=17).filter(|code| is_final(*code)).collect();
        assert_eq!(finals, [0, 3, 5, 6, 9, 11]);
    }
}
