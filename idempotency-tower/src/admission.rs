//! What is settled before a claim: whose key it is, which key, and what request it stands for.

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, Uri, request::Parts};
use http_body::Body;
use http_body_util::BodyExt;
use idempotency_core::{Fingerprint, IdempotencyKey};

use crate::{
    capture::Held,
    config::Config,
    flight::{Flight, Ticket},
    key::{self, KeyFault},
    refusal::Refusal,
};

/// A request that may claim its key. Key, scope and fingerprint are fixed here, whatever inner layers
/// do to the request.
pub(crate) struct Admitted {
    /// In one place from the beginning: it is large, and futures move what they hold.
    pub(crate) head: Box<Parts>,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) key: IdempotencyKey,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) ticket: Ticket,
}

/// Key and principal come first, then the body: what is refused early costs little.
pub(crate) async fn admit<B>(
    config: &Config,
    flight: &Flight,
    head: Box<Parts>,
    body: B,
) -> Result<Admitted, Refusal>
where
    B: Body<Data = Bytes>,
{
    let key = identify(config, &head)?;
    let ticket = flight.board()?;
    let (body, trailers) = tokio::select! {
        biased;
        read = read(body, config.max_request_bytes) => read?,
        // what comes at the client's leisure is not waited for
        () = flight.is_draining() => return Err(Refusal::ShuttingDown),
    };
    let fingerprint = fingerprint(config, &head, &body);
    Ok(Admitted { head, body, trailers, key, fingerprint, ticket })
}

/// Reads all of the body, and not more than `max` bytes.
async fn read<B>(body: B, max: usize) -> Result<(Bytes, Option<HeaderMap>), Refusal>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    if body.size_hint().lower() > max as u64 {
        return Err(Refusal::BodyTooLarge { max });
    }
    let (mut held, mut trailers) = (Held::default(), None);
    while let Some(frame) = body.frame().await {
        match frame.map_err(|_| Refusal::BodyUnreadable)?.into_data() {
            Ok(data) => held.push(data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        if held.len() > max {
            return Err(Refusal::BodyTooLarge { max });
        }
    }
    Ok((held.into_bytes(), trailers))
}

fn identify(config: &Config, parts: &Parts) -> Result<IdempotencyKey, Refusal> {
    let profile = &config.profile;
    let scope = (config.scope_of)(parts).ok_or(Refusal::NoPrincipal)?;
    let key = key::find(&parts.headers, &profile.key_header, profile.key_rule)
        .map_err(Refusal::KeyInvalid)?
        .ok_or(Refusal::KeyMissing)?;
    // the rule may be laxer than what a key can be
    IdempotencyKey::new(scope, &*key)
        .map_err(|_| Refusal::KeyInvalid(KeyFault::TooLong { bytes: key.len(), max: 255 }))
}

fn fingerprint(config: &Config, parts: &Parts, body: &Bytes) -> Fingerprint {
    let uri = original_uri(parts);
    let mut builder =
        Fingerprint::builder().part("method", parts.method.as_str()).part("path", uri.path());
    if let Some(query) = uri.query() {
        builder = builder.part("query", query);
    }
    for name in &config.fingerprint_headers {
        for value in parts.headers.get_all(name) {
            builder = builder.part(name.as_str(), value);
        }
    }
    builder.part("body", body).finish()
}

/// As the client sent it: a nested router strips what it was nested under, and two of them must not
/// share an answer.
#[cfg(feature = "axum")]
fn original_uri(parts: &Parts) -> &Uri {
    match parts.extensions.get::<axum::extract::OriginalUri>() {
        Some(original) => &original.0,
        None => &parts.uri,
    }
}

#[cfg(not(feature = "axum"))]
const fn original_uri(parts: &Parts) -> &Uri {
    &parts.uri
}
