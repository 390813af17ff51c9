//! Stored answers, given again.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use http_body::Body;
use idempotency_core::{Answer, AnswerBody, Replayed};

use crate::{HttpBody, config::Config, refusal::Refusal, stored_response};

/// The stored response, with its markers.
pub(crate) fn response<R>(
    config: &Config,
    replayed: &Replayed,
) -> Result<Response<HttpBody<R>>, Refusal>
where
    R: Body<Data = Bytes>,
{
    let mut response = stored(&replayed.answer)?;
    if let Some((name, value)) = &config.profile.markers.replayed {
        response.headers_mut().insert(name, value.clone());
    }
    mark_expiry(config, response.headers_mut(), replayed.retention_remaining);
    Ok(response)
}

/// The stored response as the first answer under its key.
pub(crate) fn committed<R>(
    config: &Config,
    answer: &Answer,
) -> Result<Response<HttpBody<R>>, Refusal>
where
    R: Body<Data = Bytes>,
{
    let mut response = stored(answer)?;
    mark_expiry(config, response.headers_mut(), config.idempotency.retention().get());
    Ok(response)
}

fn stored<R>(answer: &Answer) -> Result<Response<HttpBody<R>>, Refusal>
where
    R: Body<Data = Bytes>,
{
    let stored = match answer.body() {
        AnswerBody::Bytes(bytes) => bytes,
        AnswerBody::NotKept(reason) => return Err(Refusal::NotKept(reason)),
        AnswerBody::Value => return Err(Refusal::RecordUnreadable),
    };
    let stored = stored_response::decode(stored).map_err(|_| Refusal::RecordUnreadable)?;
    let mut response = Response::new(HttpBody::held(stored.body, stored.trailers));
    *response.status_mut() = stored.status;
    *response.headers_mut() = stored.headers;
    Ok(response)
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
