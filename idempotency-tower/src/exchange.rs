//! One request with a key: claim, handler, completion. Once begun it is carried out to the end.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::Pin,
    sync::Arc,
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, response::Parts};
use http_body::Body;
use idempotency_core::{
    Answer, Begun, ClaimGuard, Disposition, NotKeptReason, Recorded, Release, Retention,
};
use tower_service::Service;
use tracing::Instrument;

use crate::{
    HttpBody,
    admission::{Arrived, Identity},
    capture::{Bounds, Captured, capture},
    config::Config,
    flight::Ticket,
    grpc,
    refusal::{Asking, Refusal},
    replay,
    stored_response::{self, ToStore},
};

/// A request under way.
struct Exchange {
    config: Arc<Config>,
    ticket: Ticket,
}

/// An answer of the inner service.
struct Answered<R: Body> {
    head: Parts,
    body: Captured<R>,
    disposition: Disposition,
}

/// Tells the store how the request ended. True: it is on record as done.
type Settling = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Claims, runs the inner service, stores its answer and returns it.
pub(crate) async fn run<S, B, R>(
    config: Arc<Config>,
    arrived: Arrived,
    identity: Identity,
    inner: S,
) -> Result<Response<HttpBody<R>>, S::Error>
where
    S: Service<Request<HttpBody<B>>, Response = Response<R>> + Send,
    S::Future: Send,
    S::Error: Send,
    B: Body<Data = Bytes> + Send,
    B::Error: Send,
    R: Body<Data = Bytes> + Send,
    R::Error: Send,
{
    let Identity { key, fingerprint } = identity;
    let begun = config.idempotency.begin(&key, fingerprint).await;
    let refused = match begun {
        Ok(Begun::Acquired(guard)) => {
            let (request, ticket) = arrived.into_request();
            let exchange = Exchange { config, ticket };
            // replays need not carry this along
            return Box::pin(exchange.execute(guard, request, inner)).await;
        }
        Ok(Begun::Replayed(replayed)) => {
            match replay::response(&config, &key, arrived.head.version, &replayed) {
                Ok(response) => return Ok(response),
                Err(refusal) => refusal,
            }
        }
        Ok(Begun::InProgress(running)) => Refusal::InProgress(running),
        Ok(Begun::Mismatch(_)) => Refusal::Mismatch,
        Ok(Begun::Unknown(_)) => Refusal::OutcomeUnknown,
        Err(error) => {
            let key = key.digest();
            tracing::error!(%key, %error, "idempotency: the request was not run");
            Refusal::of_error(&error)
        }
    };
    Ok(refused.answer_to(Asking::of(&arrived.head.headers), &config.profile))
}

/// A request without a key goes through as it is.
pub(crate) async fn pass<S, B, R>(
    arrived: Arrived,
    mut inner: S,
) -> Result<Response<HttpBody<R>>, S::Error>
where
    S: Service<Request<HttpBody<B>>, Response = Response<R>>,
    B: Body<Data = Bytes>,
    R: Body<Data = Bytes>,
{
    let (request, _ticket) = arrived.into_request();
    Ok(inner.call(request).await?.map(HttpBody::untouched))
}

impl Exchange {
    async fn execute<S, B, R>(
        self,
        guard: ClaimGuard,
        mut request: Request<HttpBody<B>>,
        mut inner: S,
    ) -> Result<Response<HttpBody<R>>, S::Error>
    where
        S: Service<Request<HttpBody<B>>, Response = Response<R>> + Send,
        S::Future: Send,
        S::Error: Send,
        B: Body<Data = Bytes> + Send,
        B::Error: Send,
        R: Body<Data = Bytes> + Send,
        R::Error: Send,
    {
        request.extensions_mut().insert(guard.attempt().clone());
        let span = guard.attempt().span();
        let work = async {
            let response = inner.call(request).await?;
            Ok(self.read(response).await)
        }
        .instrument(span);
        // how far an error or a panic came, nobody knows
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(Ok(answered)) => Ok(self.answer(guard, answered).await),
            Ok(Err(error)) => {
                self.settle(release(guard, Release::Unknown)).await;
                Err(error)
            }
            Err(panic) => {
                self.settle(release(guard, Release::Unknown)).await;
                resume_unwind(panic)
            }
        }
    }

    /// Reads what will be stored; an answer that will not be stored is not read.
    async fn read<R>(&self, response: Response<R>) -> Answered<R>
    where
        R: Body<Data = Bytes> + Send,
        R::Error: Send,
    {
        let (head, body) = response.into_parts();
        // what the handler says of its own answer goes before the policy
        let said = head.extensions.get::<Disposition>().copied();
        let by_status = |status| said.unwrap_or_else(|| self.config.disposition(status));
        let mut disposition = by_status(head.status);
        if disposition != Disposition::Store {
            return Answered { head, body: Captured::Untouched(body), disposition };
        }
        let bounds = Bounds {
            max_bytes: self.config.max_response_bytes,
            wait: self.config.buffer_wait,
            clock: self.config.idempotency.clock(),
        };
        let body = capture(&head.headers, body, bounds).await;
        if grpc::is_grpc(&head.headers)
            && let Some(status) = grpc::status(&head.headers, &body)
        {
            disposition = by_status(status);
        }
        Answered { head, body, disposition }
    }

    /// Stores the answer, then hands it over.
    async fn answer<R>(self, mut guard: ClaimGuard, answered: Answered<R>) -> Response<HttpBody<R>>
    where
        R: Body<Data = Bytes> + Send,
        R::Error: Send,
    {
        let Answered { mut head, body, disposition } = answered;
        if let Some(&retention) = head.extensions.get::<Retention>() {
            guard = guard.with_retention(retention);
        }
        let (config, retention) = (Arc::clone(&self.config), guard.retention());
        let key = guard.attempt().key().clone();
        let settling = match disposition {
            Disposition::Store => complete(guard, self.record(&head, &body)),
            Disposition::Failed => release(guard, Release::Failed),
            Disposition::NotStarted => release(guard, Release::NotStarted),
            Disposition::Unknown => release(guard, Release::Unknown),
        };
        if self.settle(settling).await
            && let Some(retention) = retention
        {
            replay::mark_expiry(&config, &mut head.headers, retention.get());
        }
        replay::mark_key(&config, &mut head.headers, &key);
        Response::from_parts(head, body.into_body())
    }

    fn record<R: Body>(&self, head: &Parts, body: &Captured<R>) -> Answer {
        let reason = match body {
            Captured::Whole { data, trailers } => {
                let stored = &self.config.profile.stored_headers;
                let (status, headers) = (head.status, &head.headers);
                let whole = ToStore { status, headers, trailers: trailers.as_ref(), body: data };
                match stored_response::encode(whole, stored) {
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

    /// Waits for the store, but not longer than `store_wait`: then it is waited for elsewhere.
    async fn settle(self, mut settling: Settling) -> bool {
        let config = Arc::clone(&self.config);
        // a timer is made only when the store does not answer at once
        let slow = async { config.idempotency.clock().sleep(config.store_wait).await };
        tokio::select! {
            biased;
            on_record = &mut settling => on_record,
            () = slow => {
                let ticket = self.ticket;
                let rest = async move {
                    settling.await;
                    drop(ticket);
                };
                tokio::spawn(rest.in_current_span());
                false
            }
        }
    }
}

fn complete(guard: ClaimGuard, answer: Answer) -> Settling {
    Box::pin(async move {
        // what could not be recorded is an event of the executor
        match guard.complete(answer).await {
            Recorded::Stored | Recorded::NotKept | Recorded::Restored => true,
            Recorded::Lost | Recorded::Unrecorded(_) | Recorded::Unprotected => false,
        }
    })
}

fn release(guard: ClaimGuard, how: Release) -> Settling {
    Box::pin(async move {
        // a failed release is an event of the executor; the lease then ends the claim
        let _told = guard.release(how).await;
        false
    })
}
