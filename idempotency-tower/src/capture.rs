//! Reads a response body as far as it can be kept.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::BodyExt;
use idempotency_core::{Clock, NotKeptReason};

use crate::HttpBody;

/// A response body, as far as it was read.
pub(crate) enum Captured<R: Body> {
    /// Nothing was read: it will not be stored.
    Untouched(R),
    /// All of it.
    Whole { data: Bytes, trailers: Option<HeaderMap> },
    /// It cannot be kept; the rest is still to come.
    Open { prefix: Bytes, rest: Pin<Box<R>>, reason: NotKeptReason },
    /// It broke off.
    Broken { prefix: Bytes, error: R::Error },
}

/// How much is read, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    pub(crate) max_bytes: usize,
    pub(crate) wait: Duration,
    pub(crate) clock: &'a dyn Clock,
}

/// Reads until the end, until more than `max_bytes` are there, or until the time is over.
pub(crate) async fn capture<R>(headers: &HeaderMap, body: R, bounds: Bounds<'_>) -> Captured<R>
where
    R: Body<Data = Bytes>,
{
    let mut rest = Box::pin(body);
    let open =
        |held: Held, rest, reason| Captured::Open { prefix: held.into_bytes(), rest, reason };
    let mut held = Held::default();
    if is_event_stream(headers) {
        return open(held, rest, NotKeptReason::Stream);
    }
    if rest.size_hint().lower() > bounds.max_bytes as u64 {
        return open(held, rest, NotKeptReason::TooLarge);
    }
    let mut trailers = None;
    // a timer is made only when the body is not there at once
    let mut timeout = pin!(async { bounds.clock.sleep(bounds.wait).await });
    loop {
        if rest.is_end_stream() {
            break;
        }
        let frame = tokio::select! {
            biased;
            frame = rest.frame() => frame,
            () = &mut timeout => return open(held, rest, NotKeptReason::Stream),
        };
        match frame {
            None => break,
            Some(Err(error)) => {
                let prefix = held.into_bytes();
                return Captured::Broken { prefix, error };
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => held.push(data),
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
        if held.len() > bounds.max_bytes {
            return open(held, rest, NotKeptReason::TooLarge);
        }
    }
    let data = held.into_bytes();
    Captured::Whole { data, trailers }
}

impl<R: Body<Data = Bytes>> Captured<R> {
    pub(crate) fn into_body(self) -> HttpBody<R> {
        match self {
            Self::Untouched(body) => HttpBody::untouched(body),
            Self::Whole { data, trailers } => HttpBody::held(data, trailers),
            Self::Open { prefix, rest, .. } => HttpBody::open(prefix, rest),
            Self::Broken { prefix, error } => HttpBody::broken(prefix, error),
        }
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    const EVENT_STREAM: &[u8] = b"text/event-stream";
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.as_bytes().get(..EVENT_STREAM.len()))
        .is_some_and(|essence| essence.eq_ignore_ascii_case(EVENT_STREAM))
}

/// What was read. Most bodies are one piece, and that is not copied.
#[derive(Default)]
pub(crate) struct Held {
    first: Bytes,
    more: BytesMut,
}

impl Held {
    pub(crate) fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.more.is_empty() {
            self.more.extend_from_slice(&self.first);
        }
        self.more.extend_from_slice(&data);
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len().max(self.more.len())
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }
}
