//! Who sent it? Asked outside the idempotency layer, so that nothing is claimed for a forgery, and a
//! forger is not told what was handled before.

mod standard;
mod stripe;

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hmac::Mac;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use idempotency::{Clock, SystemClock};

use crate::{problem, secret::Key};

/// Lets pass what one of its keys has signed.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) scheme: Scheme,
    /// Several while the sender changes its secret.
    pub(crate) keys: Vec<Key>,
    /// A signature can only be checked over all of the body.
    pub(crate) body_timeout: Duration,
    pub(crate) clock: SystemClock,
}

/// How a sender signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Standard,
    Stripe,
}

/// Older signatures, and ones from the future, may be somebody else's recording. Both specifications
/// propose it.
const TOLERANCE: Duration = Duration::from_mins(5);

/// What is held for somebody who is not known yet.
const MAX_BODY_BYTES: usize = 256 << 10;

/// A signature as it was sent.
#[derive(Debug)]
struct Signed<'h> {
    /// As it was sent: it is a part of what is signed.
    timestamp: &'h str,
    /// What is signed, before the body.
    prefix: String,
    /// One for each of the sender's secrets.
    signatures: Vec<Vec<u8>>,
}

/// Why it does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no signature, or it is no signature.
    Missing,
    Stale,
    Forged,
}

pub(crate) async fn verify(
    State(gate): State<Arc<Gate>>,
    request: Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    // the head first: for who signs nothing no body is read
    let signed = match gate.signed(&head.headers) {
        Ok(signed) => signed,
        Err(refused) => return refused.into_response(),
    };
    let body = match read(body, gate.body_timeout).await {
        Ok(body) => body,
        Err(unread) => return unread.into_response(),
    };
    match gate.verify(&signed, &body) {
        Ok(()) => next.run(Request::from_parts(head, Body::from(body))).await,
        Err(refused) => refused.into_response(),
    }
}

/// Why the body of a delivery is not all there.
enum Unread {
    TooLarge,
    TooSlow { limit: Duration },
    BrokeOff,
}

/// All of a body: within a size and a time, since anybody may send it.
async fn read(body: Body, limit: Duration) -> Result<Bytes, Unread> {
    let all = Limited::new(body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(limit, all).await {
        Err(_) => Err(Unread::TooSlow { limit }),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Unread::TooLarge),
        Ok(Err(_)) => Err(Unread::BrokeOff),
    }
}

impl IntoResponse for Unread {
    fn into_response(self) -> Response {
        match self {
            Self::TooLarge => {
                let detail = format!("An event has at most {MAX_BODY_BYTES} bytes.");
                problem::response(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
            }
            Self::TooSlow { limit } => {
                let limit = humantime::format_duration(limit);
                let detail = format!("An event has to arrive within {limit}. Deliver it again.");
                problem::response(StatusCode::REQUEST_TIMEOUT, "too-slow", detail)
            }
            Self::BrokeOff => {
                let detail = "The body broke off before its end.";
                problem::response(StatusCode::BAD_REQUEST, "body-unreadable", detail)
            }
        }
    }
}

impl Gate {
    /// What the head says of the signature, when it is not too old.
    fn signed<'h>(&self, headers: &'h HeaderMap) -> Result<Signed<'h>, Refused> {
        let signed = match self.scheme {
            Scheme::Standard => standard::read(headers),
            Scheme::Stripe => stripe::read(headers),
        };
        let signed = signed.ok_or(Refused::Missing)?;
        let at: u64 = signed.timestamp.parse().map_err(|_| Refused::Missing)?;
        let now = self.clock.now().as_unix_millis() / 1_000;
        if now.abs_diff(at) > TOLERANCE.as_secs() { Err(Refused::Stale) } else { Ok(signed) }
    }

    fn verify(&self, signed: &Signed<'_>, body: &Bytes) -> Result<(), Refused> {
        let is_by = |key: &Key| {
            let mac = key.clone().chain_update(&signed.prefix).chain_update(body);
            // compared in constant time
            signed.signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
        };
        if self.keys.iter().any(is_by) { Ok(()) } else { Err(Refused::Forged) }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, detail) = match self {
            Self::Missing => (StatusCode::BAD_REQUEST, "The delivery is not signed."),
            Self::Stale => (
                StatusCode::UNAUTHORIZED,
                "The signature is older or newer than 5 minutes: deliver the event again, signed anew.",
            ),
            Self::Forged => (StatusCode::UNAUTHORIZED, "The signature is not by a known secret."),
        };
        problem::response(status, "signature", detail)
    }
}

fn line<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests;
