use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use idempotency_core::Attempt;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{
    HttpBody,
    admission::{Admitted, admit},
    config::Config,
    detached::Detached,
    exchange,
    flight::Flight,
    refusal::Asking,
    turned_away,
};

/// The service that [`IdempotencyLayer`](crate::IdempotencyLayer) makes.
///
/// The inner service takes requests with the body [`HttpBody<B>`], in which `B` is the body that comes
/// from outside. The attempt is an extension of the request, of type
/// [`Attempt`].
#[derive(Clone, Debug)]
pub struct IdempotencyService<S> {
    inner: S,
    config: Arc<Config>,
    flight: Arc<Flight>,
}

impl<S> IdempotencyService<S> {
    pub(crate) const fn new(inner: S, config: Arc<Config>, flight: Arc<Flight>) -> Self {
        Self { inner, config, flight }
    }

    /// Whether the request may go through the store. Inside another idempotency layer it has done so
    /// already, and would meet its own claim.
    fn may_concern<B>(&self, request: &Request<B>) -> bool {
        self.config.may_concern(request.method(), request.headers())
            && request.extensions().get::<Attempt>().is_none()
    }
}

impl<S, B, R> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<HttpBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<HttpBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !self.may_concern(&request) {
            let future = self.inner.call(request.map(HttpBody::untouched));
            return ResponseFuture::passed(future);
        }
        let (head, body) = request.into_parts();
        let config = self.config.of_request(&head);
        if !config.concerns(&head.headers) {
            let request = Request::from_parts(head, HttpBody::untouched(body));
            return ResponseFuture::passed(self.inner.call(request));
        }
        // the one that was polled ready is called, a clone stays for the next request
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let flight = Arc::clone(&self.flight);
        let asking = Asking::of(&head.headers);
        let head = Box::new(head);
        ResponseFuture::keyed(Detached::new(|no_return| async move {
            match admit(&config, &flight, head, body).await {
                Err(refusal) => {
                    turned_away::tell(refusal, &config.idempotency);
                    Ok(refusal.answer_to(asking, &config.profile))
                }
                Ok(Admitted { arrived, identity: Some(identity) }) => {
                    no_return.pass();
                    exchange::run(config, arrived, identity, inner).await
                }
                Ok(Admitted { arrived, identity: None }) => exchange::pass(arrived, inner).await,
            }
        }))
    }
}

pin_project! {
    /// The future of [`IdempotencyService`].
    ///
    /// # Cancel safety
    /// Dropping it before the request body was read drops the request. After that the request is
    /// carried out all the same, and its answer stored.
    pub struct ResponseFuture<F, R, E>
    where
        R: Body,
        R: Send,
        R: 'static,
        R::Error: Send,
        E: Send,
        E: 'static,
    {
        #[pin]
        kind: Kind<F, R, E>,
    }
}

type Keyed<R, E> = Detached<Result<Response<HttpBody<R>>, E>>;

pin_project! {
    #[project = KindProjection]
    enum Kind<F, R, E>
    where
        R: Body,
        R: Send,
        R: 'static,
        R::Error: Send,
        E: Send,
        E: 'static,
    {
        Passed { #[pin] future: F },
        Keyed { future: Keyed<R, E> },
    }
}

impl<F, R, E> ResponseFuture<F, R, E>
where
    R: Body + Send + 'static,
    R::Error: Send,
    E: Send + 'static,
{
    const fn passed(future: F) -> Self {
        Self { kind: Kind::Passed { future } }
    }

    const fn keyed(future: Keyed<R, E>) -> Self {
        Self { kind: Kind::Keyed { future } }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
    E: Send + 'static,
{
    type Output = Result<Response<HttpBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            KindProjection::Passed { future } => {
                let answer = ready!(future.poll(cx));
                Poll::Ready(answer.map(|response| response.map(HttpBody::untouched)))
            }
            KindProjection::Keyed { future } => Pin::new(future).poll(cx),
        }
    }
}

impl<F, R, E> fmt::Debug for ResponseFuture<F, R, E>
where
    R: Body + Send + 'static,
    R::Error: Send,
    E: Send + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
