#![expect(clippy::unwrap_used, reason = "only tests come here, and what fails is their end")]

use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, CompleteRequest, FinishOutcome,
    IdempotencyKey, IdempotencyStore, Lease, Release, ReleaseOutcome, ReleaseRequest, RenewOutcome,
    RenewRequest, Retention, StoreError, Takeover,
};

use crate::{fingerprint, soon};

/// One attempt at one key, on any store.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The key.
    pub key: IdempotencyKey,
    /// Its own token.
    pub token: ClaimToken,
    /// Its number: whoever takes over sets it.
    pub attempt: AttemptNumber,
    /// What it claims and renews for.
    pub lease: Lease,
    /// What it claims and completes for.
    pub retention: Retention,
    /// Whether it takes over.
    pub takeover: Takeover,
}

impl Caller {
    /// The first attempt, with a token of its own and the default durations.
    ///
    /// # Panics
    /// The system has no random numbers.
    pub fn new(key: &IdempotencyKey) -> Self {
        Self {
            key: key.clone(),
            token: ClaimToken::random().unwrap(),
            attempt: AttemptNumber::FIRST,
            lease: Lease::DEFAULT,
            retention: Retention::DEFAULT,
            takeover: Takeover::Allow,
        }
    }

    /// Claims.
    ///
    /// # Errors
    /// As the store.
    pub async fn claim(&self, store: &impl IdempotencyStore) -> Result<ClaimOutcome, StoreError> {
        let request = ClaimRequest {
            key: &self.key,
            fingerprint: fingerprint(),
            token: self.token,
            lease: self.lease,
            retention: self.retention,
            takeover: self.takeover,
        };
        store.claim(request).await
    }

    /// Claims, and must be acquired.
    ///
    /// # Panics
    /// It was not.
    pub async fn acquire(&self, store: &impl IdempotencyStore) {
        let outcome = self.claim(store).await.unwrap();
        assert!(matches!(outcome, ClaimOutcome::Acquired(_)), "{outcome:?}");
    }

    /// What it completes with.
    pub fn completion(&self, response: impl Into<Bytes>) -> CompleteRequest<'_> {
        CompleteRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            fingerprint: fingerprint(),
            response: response.into(),
            retention: self.retention,
        }
    }

    /// Completes.
    ///
    /// # Errors
    /// As the store.
    pub async fn complete(
        &self,
        store: &impl IdempotencyStore,
        response: impl Into<Bytes>,
    ) -> Result<FinishOutcome, StoreError> {
        let request = self.completion(response);
        store.complete(request).await
    }

    /// Renews for its lease and leaves `checkpoint`.
    ///
    /// # Errors
    /// As the store.
    ///
    /// # Panics
    /// The sequence number is 0.
    pub async fn renew(
        &self,
        store: &impl IdempotencyStore,
        sequence: u64,
    ) -> Result<RenewOutcome, StoreError> {
        let request = RenewRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            sequence: sequence.try_into().unwrap(),
            lease: self.lease,
            checkpoint: Some("checkpoint".into()),
        };
        store.renew(request).await
    }

    /// Gives back.
    ///
    /// # Errors
    /// As the store.
    pub async fn release(
        &self,
        store: &impl IdempotencyStore,
        release: Release,
    ) -> Result<ReleaseOutcome, StoreError> {
        let (key, token, attempt) = (&self.key, self.token, self.attempt);
        store.release(ReleaseRequest { key, token, attempt, release }).await
    }
}

/// The response that is replayed for a key.
///
/// # Panics
/// None is.
pub async fn replayed(store: &impl IdempotencyStore, key: &IdempotencyKey) -> Bytes {
    let outcome = Caller::new(key).claim(store).await.unwrap();
    let ClaimOutcome::Replay(replay) = outcome else { panic!("{outcome:?}") };
    replay.response
}

/// Waits until the lease of the attempt at a key is over.
///
/// # Panics
/// It is not over within a minute, or the store does not answer.
pub async fn until_abandoned(store: &impl IdempotencyStore, key: &IdempotencyKey) {
    let stranger = Caller { takeover: Takeover::Refuse, ..Caller::new(key) };
    soon!("the end of a lease", {
        let outcome = stranger.claim(store).await.unwrap();
        matches!(outcome, ClaimOutcome::Abandoned(_)).then_some(())
    });
}
