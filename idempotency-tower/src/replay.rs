//! Stored answers, given again.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, Version, header};
use http_body::Body;
use idempotency_core::{Answer, AnswerBody, IdempotencyKey, NotKeptReason, Replayed, Retention};

use crate::{HttpBody, config::Config, refusal::Refusal, stored_response};

/// The stored response, with its markers.
pub(crate) fn response<R>(
    config: &Config,
    key: &IdempotencyKey,
    version: Version,
    replayed: &Replayed,
) -> Result<Response<HttpBody<R>>, Refusal>
where
    R: Body<Data = Bytes>,
{
    let mut response = whole(config, version, &replayed.answer)?;
    let headers = response.headers_mut();
    let markers = &config.profile.markers;
    if let Some((name, value)) = &markers.replayed {
        headers.insert(name, value.clone());
    }
    if let Some((then, now)) = &markers.original
        && let Some(value) = headers.remove(then)
    {
        headers.insert(now, value);
    }
    mark_expiry(config, headers, replayed.retention_remaining);
    mark_key(config, headers, key);
    Ok(response)
}

/// The stored response as the first answer under its key.
pub(crate) fn committed<R>(
    config: &Config,
    committed: Committed<'_>,
) -> Result<Response<HttpBody<R>>, Refusal>
where
    R: Body<Data = Bytes>,
{
    let mut response = whole(config, committed.version, committed.answer)?;
    mark_expiry(config, response.headers_mut(), committed.retention.get());
    mark_key(config, response.headers_mut(), committed.key);
    Ok(response)
}

/// An answer that was committed just now.
#[derive(Clone, Copy)]
pub(crate) struct Committed<'a> {
    pub(crate) answer: &'a Answer,
    pub(crate) key: &'a IdempotencyKey,
    pub(crate) version: Version,
    pub(crate) retention: Retention,
}

fn whole<R>(
    config: &Config,
    version: Version,
    answer: &Answer,
) -> Result<Response<HttpBody<R>>, Refusal>
where
    R: Body<Data = Bytes>,
{
    match answer.body() {
        AnswerBody::Bytes(bytes) => stored(bytes, version),
        AnswerBody::NotKept(reason) => acknowledged(config, reason),
        AnswerBody::Value => Err(Refusal::RecordUnreadable),
    }
}

fn stored<R>(bytes: Bytes, version: Version) -> Result<Response<HttpBody<R>>, Refusal>
where
    R: Body<Data = Bytes>,
{
    let mut stored = stored_response::decode(bytes).map_err(|_| Refusal::RecordUnreadable)?;
    if let Some(trailers) = &stored.trailers
        && version < Version::HTTP_2
    {
        // there only what is announced is sent
        for name in trailers.keys() {
            stored.headers.append(header::TRAILER, name.clone().into());
        }
    }
    let mut response = Response::new(HttpBody::held(stored.body, stored.trailers));
    *response.status_mut() = stored.status;
    *response.headers_mut() = stored.headers;
    Ok(response)
}

/// Where it is enough to know that the request is done.
fn acknowledged<R>(config: &Config, reason: NotKeptReason) -> Result<Response<HttpBody<R>>, Refusal>
where
    R: Body<Data = Bytes>,
{
    let status = config.profile.statuses.not_kept;
    if !status.is_success() {
        return Err(Refusal::NotKept(reason));
    }
    let mut response = Response::new(HttpBody::held(Bytes::new(), None));
    *response.status_mut() = status;
    Ok(response)
}

/// Says under which key this was done.
pub(crate) fn mark_key(config: &Config, headers: &mut HeaderMap, key: &IdempotencyKey) {
    if let Some(name) = &config.profile.markers.key
        && let Ok(value) = HeaderValue::try_from(key.key())
    {
        headers.insert(name, value);
    }
}

/// Says when the key can be used for something else, rounded down to a second.
pub(crate) fn mark_expiry(config: &Config, headers: &mut HeaderMap, remaining: Duration) {
    let Some(name) = &config.profile.markers.expires else {
        return;
    };
    let millis = config.idempotency.clock().now().after(remaining);
    let at = Duration::from_millis(millis.as_unix_millis());
    // beyond the year 9999 there is no HTTP date
    let at = (SystemTime::UNIX_EPOCH + at.min(LAST_HTTP_DATE)).into();
    let date = httpdate::HttpDate::to_string(&at);
    if let Ok(value) = HeaderValue::try_from(date) {
        headers.insert(name, value);
    }
}

/// Fri, 31 Dec 9999 23:59:59 GMT.
const LAST_HTTP_DATE: Duration = Duration::from_secs(253_402_300_799);
