//! Records in all states, put into a store as a service would leave them.

use std::{
    future::Future,
    num::NonZeroU64,
    time::{Duration, Instant},
};

use bytes::Bytes;
use idempotency::{
    Answer, AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, Codec, CompleteRequest,
    Connected, Fingerprint, FinishOutcome, IdempotencyKey, Lease, ListQuery, ListState, Release,
    ReleaseOutcome, ReleaseRequest, RenewOutcome, RenewRequest, Retention, Takeover,
    tower::stored_response,
};

use crate::backend::Backend;

/// An answer of the HTTP layer.
pub(crate) fn http_answer() -> Answer {
    let response = http::Response::builder()
        .status(201)
        .header("content-type", "application/json")
        .header("location", "/v1/charges/ch_1")
        .body("{\"id\":\"ch_1\"}");
    stored_response(&response.unwrap()).unwrap()
}

pub(crate) fn value_answer() -> Answer {
    Answer::value::<_, String>(&Ok(("ch_2", 500)), Codec::Json).unwrap()
}

/// What the test process itself does with a store.
pub(crate) fn with_store<T, F>(backend: &Backend, work: impl FnOnce(Connected) -> F) -> T
where
    F: Future<Output = T>,
{
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { work(idempotency::connect(&backend.url).await.unwrap()).await })
}

/// Of the scope `shop`: `paid` and `value`, completed; `failed`; `running`, with a checkpoint; and
/// `lost`, abandoned.
pub(crate) fn fill(backend: &Backend) {
    with_store(backend, |store| async move {
        let hour = Duration::from_hours(1);
        claimed(&store, "paid", hour).await.complete(&store, http_answer()).await;
        claimed(&store, "value", hour).await.complete(&store, value_answer()).await;
        claimed(&store, "failed", hour).await.release(&store, Release::Failed).await;
        claimed(&store, "running", hour).await.checkpoint(&store, b"step 2").await;
        claimed(&store, "lost", Duration::from_millis(1)).await;
        until_abandoned(&store, 1).await;
    });
}

/// An attempt under a key of the scope `shop`.
pub(crate) struct Claimed {
    key: IdempotencyKey,
    token: ClaimToken,
    attempt: AttemptNumber,
}

fn fingerprint() -> Fingerprint {
    Fingerprint::of_bytes("an order")
}

pub(crate) async fn claimed(store: &Connected, key: &str, lease: Duration) -> Claimed {
    claimed_for(store, key, lease, Retention::DEFAULT).await
}

pub(crate) async fn claimed_for(
    store: &Connected,
    key: &str,
    lease: Duration,
    retention: Retention,
) -> Claimed {
    let key = IdempotencyKey::new("shop", key).unwrap();
    let token = ClaimToken::random().unwrap();
    let request = ClaimRequest {
        key: &key,
        fingerprint: fingerprint(),
        token,
        lease: Lease::new(lease).unwrap(),
        retention,
        takeover: Takeover::Allow,
    };
    match store.store().claim(request).await.unwrap() {
        ClaimOutcome::Acquired(acquired) => Claimed { key, token, attempt: acquired.attempt },
        other => panic!("{other:?}"),
    }
}

impl Claimed {
    pub(crate) async fn complete(self, store: &Connected, answer: Answer) {
        let request = CompleteRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            fingerprint: fingerprint(),
            response: answer.as_stored().clone(),
            retention: Retention::DEFAULT,
        };
        assert_eq!(store.store().complete(request).await.unwrap(), FinishOutcome::Done);
    }

    async fn release(self, store: &Connected, release: Release) {
        let Self { key, token, attempt } = &self;
        let request = ReleaseRequest { key, token: *token, attempt: *attempt, release };
        assert_eq!(store.store().release(request).await.unwrap(), ReleaseOutcome::Released);
    }

    async fn checkpoint(self, store: &Connected, checkpoint: &'static [u8]) {
        let request = RenewRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            sequence: NonZeroU64::MIN,
            lease: Lease::DEFAULT,
            checkpoint: Some(Bytes::from_static(checkpoint)),
        };
        let renewed = store.store().renew(request).await.unwrap();
        assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
    }
}

/// Waits until the store itself says that so many leases are over.
pub(crate) async fn until_abandoned(store: &Connected, count: usize) {
    #[expect(clippy::disallowed_methods, reason = "a deadline of the test itself")]
    let begin = Instant::now();
    loop {
        let found = abandoned(store).await;
        if found >= count {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{found} of {count} leases are over");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many leases are over, on all pages: other tests fill the same server.
async fn abandoned(store: &Connected) -> usize {
    let mut query = ListQuery { state: Some(ListState::Abandoned), ..ListQuery::default() };
    let mut found = 0;
    loop {
        let page = store.admin().unwrap().list(query.clone()).await.unwrap();
        found += page.records.len();
        query.page = page.next;
        if query.page.is_none() {
            return found;
        }
    }
}
