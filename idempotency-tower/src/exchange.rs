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
    Answer, Begun, ClaimGuard, Disposition, Joined, Otherwise, Recorded, Release, Retention,
};
use tower_service::Service;
use tracing::Instrument;

use crate::{
    CurrentAttempt, HttpBody,
    admission::{Arrived, Identity},
    capture::{Captured, capture},
    config::Config,
    flight::Ticket,
    grpc,
    joined::{Client, Given, Own, Prepared, given},
    refusal::{Asking, Refusal},
    replay, stored_response,
};

/// A request under way.
struct Exchange {
    config: Arc<Config>,
    ticket: Ticket,
    client: Client,
}

/// An answer of the inner service.
struct Answered<R: Body> {
    head: Parts,
    body: Captured<R>,
    disposition: Disposition,
}

/// Tells the store how the request ended.
type Settling = Pin<Box<dyn Future<Output = Settled> + Send>>;

/// What the store says of it.
enum Settled {
    /// It is on record as done.
    OnRecord,
    /// It is not, or not yet.
    Open,
    /// What became of the handler's own transaction.
    Joined(Joined),
}

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
            let client = Client::of(&request);
            let exchange = Exchange { config, ticket, client };
            return exchange.execute(guard, request, inner).await;
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
        let attempt = guard.attempt().clone();
        let current = CurrentAttempt::new(attempt.clone(), Arc::clone(&self.config));
        request.extensions_mut().insert(attempt);
        request.extensions_mut().insert(current);
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
                self.settle(give_up(guard)).await;
                Err(error)
            }
            Err(panic) => {
                self.settle(give_up(guard)).await;
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
        let body = capture(&head.headers, body, self.config.bounds()).await;
        if let Some(status) = grpc::status(&head.headers, &body) {
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
        let (config, client, retention) =
            (Arc::clone(&self.config), self.client, guard.retention());
        let attempt = guard.attempt().clone();
        let otherwise = match disposition {
            Disposition::Store => {
                Otherwise::Complete(stored_response::answer(&head, &body, &self.config))
            }
            Disposition::Failed => Otherwise::Release(Release::Failed),
            Disposition::NotStarted => Otherwise::Release(Release::NotStarted),
            Disposition::Unknown => Otherwise::Release(Release::Unknown),
        };
        let prepared = head.extensions.remove::<Prepared>();
        let (settling, own) = match (attempt.joined_answer(), otherwise) {
            (Some(joint), Otherwise::Complete(answer)) => {
                let is_prepared = prepared.is_some_and(|prepared| prepared.is(&joint));
                // also changed it speaks of what the transaction has written
                let otherwise = if is_prepared { joint } else { answer.clone() };
                let own = Own { answer, is_prepared };
                (joined(guard, Otherwise::Complete(otherwise)), Some(own))
            }
            (Some(_), release) => (joined(guard, release), None),
            (None, Otherwise::Complete(answer)) => (complete(guard, answer), None),
            (None, Otherwise::Release(how)) => (release(guard, how), None),
        };
        let on_record = match self.settle(settling).await {
            Settled::OnRecord => true,
            Settled::Open => false,
            Settled::Joined(joined) => {
                match given(&config, (client, &attempt), joined, own.as_ref()) {
                    Given::Own(on_record) => on_record,
                    Given::Instead(response) => return response,
                }
            }
        };
        if on_record && let Some(retention) = retention {
            replay::mark_expiry(&config, &mut head.headers, retention.get());
        }
        replay::mark_key(&config, &mut head.headers, attempt.key());
        Response::from_parts(head, body.into_body())
    }

    /// Waits for the store, but not longer than `store_wait`: then it is waited for elsewhere.
    async fn settle(self, mut settling: Settling) -> Settled {
        let config = Arc::clone(&self.config);
        // a timer is made only when the store does not answer at once
        let slow = async { config.idempotency.clock().sleep(config.store_wait).await };
        tokio::select! {
            biased;
            settled = &mut settling => settled,
            () = slow => {
                let ticket = self.ticket;
                let rest = async move {
                    settling.await;
                    drop(ticket);
                };
                tokio::spawn(rest.in_current_span());
                Settled::Open
            }
        }
    }
}

fn complete(guard: ClaimGuard, answer: Answer) -> Settling {
    Box::pin(async move {
        // what could not be recorded is an event of the executor
        match guard.complete(answer).await {
            Recorded::Stored | Recorded::NotKept | Recorded::Restored => Settled::OnRecord,
            Recorded::Lost | Recorded::Unrecorded(_) | Recorded::Unprotected => Settled::Open,
        }
    })
}

fn release(guard: ClaimGuard, how: Release) -> Settling {
    Box::pin(async move {
        // a failed release is an event of the executor; the lease then ends the claim
        let _told = guard.release(how).await;
        Settled::Open
    })
}

/// After an error or a panic. What was committed before stays.
fn give_up(guard: ClaimGuard) -> Settling {
    match guard.attempt().joined_answer() {
        Some(_) => joined(guard, Otherwise::Release(Release::Unknown)),
        None => release(guard, Release::Unknown),
    }
}

fn joined(guard: ClaimGuard, otherwise: Otherwise) -> Settling {
    Box::pin(async move { Settled::Joined(guard.joined(otherwise).await) })
}
