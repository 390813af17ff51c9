//! What all tests use.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, CompleteRequest, Fingerprint,
    FinishOutcome, IdempotencyKey, IdempotencyStore, Lease, ManualClock, Release, ReleaseOutcome,
    ReleaseRequest, RenewOutcome, RenewRequest, Retention, StoreError, Takeover,
};
use idempotency_memory::MemoryStore;

pub(crate) const LEASE: Duration = Duration::from_secs(10);
pub(crate) const RETENTION: Duration = Duration::from_mins(10);

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn key(name: impl AsRef<str>) -> IdempotencyKey {
    IdempotencyKey::new("scope", name).unwrap()
}

pub(crate) fn token() -> ClaimToken {
    ClaimToken::random().unwrap()
}

pub(crate) fn body(text: &str) -> Fingerprint {
    Fingerprint::of_bytes(text)
}

pub(crate) fn attempt(number: u32) -> AttemptNumber {
    AttemptNumber::new(number).unwrap()
}

/// A store and the clock that moves it.
pub(crate) fn store() -> (MemoryStore, ManualClock) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (store, clock)
}

/// One caller of a key: its token, its request, its durations.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) key: IdempotencyKey,
    pub(crate) token: ClaimToken,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) lease: Duration,
    pub(crate) retention: Duration,
}

impl Caller {
    pub(crate) fn of(name: impl AsRef<str>) -> Self {
        Self {
            key: key(name),
            token: token(),
            fingerprint: body("charge 12"),
            lease: LEASE,
            retention: RETENTION,
        }
    }

    /// Another caller with the same key.
    pub(crate) fn another(&self) -> Self {
        Self { token: token(), ..self.clone() }
    }

    pub(crate) fn request(&self, takeover: Takeover) -> ClaimRequest<'_> {
        ClaimRequest {
            key: &self.key,
            fingerprint: self.fingerprint,
            token: self.token,
            lease: Lease::new(self.lease).unwrap(),
            retention: Retention::new(self.retention).unwrap(),
            takeover,
        }
    }

    pub(crate) async fn try_claim(
        &self,
        store: &dyn IdempotencyStore,
    ) -> Result<ClaimOutcome, StoreError> {
        store.claim(self.request(Takeover::Allow)).await
    }

    pub(crate) async fn claim(&self, store: &dyn IdempotencyStore) -> ClaimOutcome {
        self.try_claim(store).await.unwrap()
    }

    /// Claims and expects to execute, as this attempt.
    pub(crate) async fn acquires(&self, store: &dyn IdempotencyStore, number: u32) {
        let outcome = self.claim(store).await;
        let expected = attempt(number);
        assert!(
            matches!(&outcome, ClaimOutcome::Acquired(acquired) if acquired.attempt == expected),
            "{outcome:?}"
        );
    }

    pub(crate) async fn try_complete(
        &self,
        store: &dyn IdempotencyStore,
        number: u32,
        response: impl Into<Bytes>,
    ) -> Result<FinishOutcome, StoreError> {
        let complete = CompleteRequest {
            key: &self.key,
            token: self.token,
            attempt: attempt(number),
            fingerprint: self.fingerprint,
            response: response.into(),
            retention: Retention::new(self.retention).unwrap(),
        };
        store.complete(complete).await
    }

    pub(crate) async fn complete(
        &self,
        store: &dyn IdempotencyStore,
        number: u32,
        response: impl Into<Bytes>,
    ) -> FinishOutcome {
        self.try_complete(store, number, response).await.unwrap()
    }

    pub(crate) async fn release(
        &self,
        store: &dyn IdempotencyStore,
        number: u32,
        release: Release,
    ) -> ReleaseOutcome {
        let release =
            ReleaseRequest { key: &self.key, token: self.token, attempt: attempt(number), release };
        store.release(release).await.unwrap()
    }

    pub(crate) async fn try_renew(
        &self,
        store: &dyn IdempotencyStore,
        number: u32,
        sequence: u64,
        checkpoint: Option<&[u8]>,
    ) -> Result<RenewOutcome, StoreError> {
        let renew = RenewRequest {
            key: &self.key,
            token: self.token,
            attempt: attempt(number),
            sequence: sequence.try_into().unwrap(),
            lease: Lease::new(self.lease).unwrap(),
            checkpoint: checkpoint.map(Bytes::copy_from_slice),
        };
        store.renew(renew).await
    }

    /// Claims and expects these bytes.
    pub(crate) async fn replays(&self, store: &dyn IdempotencyStore, response: &[u8]) {
        let outcome = self.claim(store).await;
        assert!(
            matches!(&outcome, ClaimOutcome::Replay(replay) if replay.response == response),
            "{outcome:?}"
        );
    }
}

/// Polls until `done`, for at most 30 s.
#[expect(
    clippy::disallowed_methods,
    reason = "a deadline in real time, also where the store's clock stands still"
)]
pub(crate) async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let started = tokio::time::Instant::now();
    while !done() {
        let waited = started.elapsed();
        assert!(waited < Duration::from_secs(30), "{what}: not after {waited:?}");
        tokio::time::sleep(millis(2)).await;
    }
}

/// The answer of a future that does not wait, without any runtime.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the store waited"),
    }
}
