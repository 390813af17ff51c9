use std::fmt;

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, response::Parts};
use http_body::Body;
use idempotency_core::{Answer, NotKeptReason};

use crate::{StoredHeaders, capture::Captured, config::Config};

/// A response as the layer stores it: in an [`Answer`] of bytes, for tools that read one; [`stored_response`] makes
/// one.
///
/// Format 1; numbers are big-endian:
///
/// | bytes | what |
/// |---|---|
/// | 1 | format, 1 |
/// | 2 | status |
/// | 2 | number of header lines, n |
/// | 2 | number of trailer lines, m |
/// | … | n + m lines: length of the name (2), name, length of the value (4), value |
/// | rest | body |
///
/// `Debug` shows no header value and no body.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// The status.
    pub status: StatusCode,
    /// The header lines that are replayed.
    pub headers: HeaderMap,
    /// The trailers, if there are any.
    pub trailers: Option<HeaderMap>,
    /// The whole body.
    pub body: Bytes,
}

const FORMAT: u8 = 1;

/// Not a stored response, or one that this release cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableResponse;

impl fmt::Display for UnreadableResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a stored HTTP response of format 1")
    }
}

impl std::error::Error for UnreadableResponse {}

impl StoredResponse {
    /// Reads the bytes of an answer that the layer has stored.
    ///
    /// # Errors
    /// They are something else, or of a newer format.
    pub fn read(stored: Bytes) -> Result<Self, UnreadableResponse> {
        decode(stored)
    }
}

impl fmt::Debug for StoredResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredResponse")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The answer that stands for a response, as far as it was read.
pub(crate) fn answer<R: Body>(head: &Parts, body: &Captured<R>, config: &Config) -> Answer {
    let reason = match body {
        Captured::Whole { data, trailers } => {
            let (status, headers) = (head.status, &head.headers);
            let whole = ToStore { status, headers, trailers: trailers.as_ref(), body: data };
            match encode(whole, &config.profile.stored_headers) {
                Some(answer) => return answer,
                None => NotKeptReason::TooLarge,
            }
        }
        Captured::Open { reason, .. } => *reason,
        Captured::Untouched(_) => NotKeptReason::Stream,
        Captured::Broken { .. } => NotKeptReason::Broken,
    };
    Answer::not_kept(reason)
}

/// A response as it is to be stored.
#[derive(Clone, Copy)]
struct ToStore<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
    trailers: Option<&'a HeaderMap>,
    body: &'a [u8],
}

/// Writes a response; `None` when it has more or longer header lines than any server takes.
fn encode(response: ToStore<'_>, stored: &StoredHeaders) -> Option<Answer> {
    let mut lines = Vec::with_capacity(256);
    let header_lines = write_lines(&mut lines, stored, response.headers)?;
    let trailer_lines = match response.trailers {
        Some(trailers) => write_lines(&mut lines, stored, trailers)?,
        None => 0,
    };
    let [status, headers, trailers] =
        [response.status.as_u16(), header_lines, trailer_lines].map(u16::to_be_bytes);
    Some(Answer::joined(&[&[FORMAT], &status, &headers, &trailers, &lines, response.body]))
}

/// A response as the layer stores it: for a recovery hook, or an operator, that knows what the answer
/// to a request was. None when it has more or longer header lines than any server takes.
///
/// ```
/// use idempotency_core::Verdict;
/// use idempotency_tower::stored_response;
///
/// let charge = http::Response::builder()
///     .status(201)
///     .header("content-type", "application/json")
///     .body(r#"{"id":"ch_1"}"#)?;
/// let verdict = stored_response(&charge).map_or(Verdict::Unknown, Verdict::Happened);
/// # let _ = verdict;
/// # Ok::<(), http::Error>(())
/// ```
pub fn stored_response(response: &http::Response<impl AsRef<[u8]>>) -> Option<Answer> {
    let response = ToStore {
        status: response.status(),
        headers: response.headers(),
        trailers: None,
        body: response.body().as_ref(),
    };
    encode(response, &StoredHeaders::default())
}

fn write_lines(out: &mut Vec<u8>, stored: &StoredHeaders, headers: &HeaderMap) -> Option<u16> {
    let mut count: u16 = 0;
    for (name, value) in stored.of(headers) {
        out.put_u16(name.as_str().len().try_into().ok()?);
        out.put_slice(name.as_str().as_bytes());
        out.put_u32(value.len().try_into().ok()?);
        out.put_slice(value.as_bytes());
        count = count.checked_add(1)?;
    }
    Some(count)
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(mut stored: Bytes) -> Result<StoredResponse, UnreadableResponse> {
    if stored.try_get_u8().map_err(unreadable)? != FORMAT {
        return Err(UnreadableResponse);
    }
    let status = stored.try_get_u16().map_err(unreadable)?;
    let header_lines = stored.try_get_u16().map_err(unreadable)?;
    let trailer_lines = stored.try_get_u16().map_err(unreadable)?;
    let headers = lines(&mut stored, header_lines)?;
    let trailers = lines(&mut stored, trailer_lines)?;
    Ok(StoredResponse {
        status: StatusCode::from_u16(status).map_err(unreadable)?,
        headers,
        trailers: Some(trailers).filter(|trailers| !trailers.is_empty()),
        body: stored,
    })
}

fn lines(stored: &mut Bytes, count: u16) -> Result<HeaderMap, UnreadableResponse> {
    let mut headers = HeaderMap::new();
    for _ in 0..count {
        let length = stored.try_get_u16().map_err(unreadable)?;
        let name = HeaderName::from_bytes(&take(stored, length.into())?).map_err(unreadable)?;
        let length = stored.try_get_u32().map_err(unreadable)?;
        let length = usize::try_from(length).map_err(unreadable)?;
        let value = HeaderValue::from_maybe_shared(take(stored, length)?).map_err(unreadable)?;
        headers.try_append(name, value).map_err(unreadable)?;
    }
    Ok(headers)
}

fn take(stored: &mut Bytes, length: usize) -> Result<Bytes, UnreadableResponse> {
    if length > stored.len() {
        return Err(UnreadableResponse);
    }
    Ok(stored.split_to(length))
}

fn unreadable<E>(_: E) -> UnreadableResponse {
    UnreadableResponse
}

#[cfg(test)]
mod tests;
