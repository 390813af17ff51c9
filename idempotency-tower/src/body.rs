use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a request to, or a response from, a service inside the layer: untouched, held in
    /// memory, or partly held.
    ///
    /// A service that takes one concrete body type gets it with `map_request`; see the crate's
    /// documentation.
    pub struct HttpBody<B>
    where
        B: Body,
    {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B>
    where
        B: Body,
    {
        Untouched { #[pin] body: B },
        Held { data: Option<Bytes>, trailers: Option<Box<HeaderMap>> },
        Open { prefix: Option<Bytes>, rest: Pin<Box<B>> },
        Broken { prefix: Option<Bytes>, is_sent: bool, error: Option<B::Error> },
    }
}

impl<B: Body<Data = Bytes>> HttpBody<B> {
    pub(crate) const fn untouched(body: B) -> Self {
        Self { kind: Kind::Untouched { body } }
    }

    pub(crate) fn held(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        let kind = Kind::Held { data: not_empty(data), trailers: trailers.map(Box::new) };
        Self { kind }
    }

    /// What was read already, then the rest.
    pub(crate) fn open(prefix: Bytes, rest: Pin<Box<B>>) -> Self {
        let prefix = not_empty(prefix);
        Self { kind: Kind::Open { prefix, rest } }
    }

    /// What was read, then the failure.
    pub(crate) fn broken(prefix: Bytes, error: B::Error) -> Self {
        let kind = Kind::Broken {
            is_sent: prefix.is_empty(),
            prefix: not_empty(prefix),
            error: Some(error),
        };
        Self { kind }
    }
}

fn not_empty(data: Bytes) -> Option<Bytes> {
    Some(data).filter(|data| !data.is_empty())
}

type Polled<E> = Poll<Option<Result<Frame<Bytes>, E>>>;

impl<B: Body<Data = Bytes>> Body for HttpBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<B::Error> {
        let held = |data: &mut Option<Bytes>| data.take().map(|data| Ok(Frame::data(data)));
        match self.project().kind.project() {
            KindProjection::Untouched { body } => body.poll_frame(cx),
            KindProjection::Held { data, trailers } => {
                let last = |trailers: Box<HeaderMap>| Ok(Frame::trailers(*trailers));
                Poll::Ready(held(data).or_else(|| trailers.take().map(last)))
            }
            KindProjection::Open { prefix, rest } => match held(prefix) {
                Some(frame) => Poll::Ready(Some(frame)),
                None => rest.as_mut().poll_frame(cx),
            },
            KindProjection::Broken { prefix, is_sent, error } => {
                if prefix.is_none() && !std::mem::replace(is_sent, true) {
                    // servers send what they have when nothing is ready, and drop it at an error
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(held(prefix).or_else(|| error.take().map(Err)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Untouched { body } => body.is_end_stream(),
            Kind::Held { data, trailers } => data.is_none() && trailers.is_none(),
            Kind::Open { prefix, rest } => prefix.is_none() && rest.is_end_stream(),
            Kind::Broken { prefix, error, .. } => prefix.is_none() && error.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Untouched { body } => body.size_hint(),
            Kind::Held { data, trailers: None } => SizeHint::with_exact(length(data.as_ref())),
            // a body of known length is framed by it, and then nothing can follow it in HTTP/1.1
            Kind::Held { data, trailers: Some(_) } => {
                let mut hint = SizeHint::new();
                hint.set_lower(length(data.as_ref()));
                hint
            }
            Kind::Open { prefix, rest } => {
                let (prefix, rest) = (length(prefix.as_ref()), rest.size_hint());
                let mut hint = SizeHint::new();
                hint.set_lower(rest.lower().saturating_add(prefix));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(prefix)) {
                    hint.set_upper(upper);
                }
                hint
            }
            Kind::Broken { .. } => SizeHint::default(),
        }
    }
}

fn length(data: Option<&Bytes>) -> u64 {
    data.map_or(0, |data| data.len() as u64)
}

/// Shows what kind of body it is, not what is in it.
impl<B: Body> fmt::Debug for HttpBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Untouched { .. } => "HttpBody(untouched)",
            Kind::Held { .. } => "HttpBody(held)",
            Kind::Open { .. } => "HttpBody(open)",
            Kind::Broken { .. } => "HttpBody(broken)",
        })
    }
}
