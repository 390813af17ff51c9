//! Somebody who uses a store: one key, one token, and what it asks for.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use bytes::Bytes;
use idempotency_core::{
    Abandoned, Acquired, AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, CompleteRequest,
    Fingerprint, FinishOutcome, IdempotencyKey, IdempotencyStore, Release, ReleaseOutcome,
    ReleaseRequest, RenewOutcome, RenewRequest, Replay, Running, StoreError, Takeover,
};

use crate::{
    failure::{Halt, Verdict},
    subject::{LONG, lease, retention},
};

#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) store: Arc<dyn IdempotencyStore>,
    pub(crate) key: IdempotencyKey,
    pub(crate) token: ClaimToken,
    pub(crate) attempt: AttemptNumber,
    pub(crate) fingerprint: Fingerprint,
    lease: Duration,
    retention: Duration,
    takeover: Takeover,
}

/// What a renewal asks for.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) sequence: u64,
    pub(crate) lease: Duration,
    pub(crate) checkpoint: Option<Bytes>,
}

impl Renewal {
    pub(crate) const fn number(sequence: u64) -> Self {
        Self { sequence, lease: LONG, checkpoint: None }
    }

    pub(crate) fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    pub(crate) fn leaving(self, checkpoint: &'static str) -> Self {
        let checkpoint = Some(Bytes::from_static(checkpoint.as_bytes()));
        Self { checkpoint, ..self }
    }
}

impl Caller {
    pub(crate) fn new(
        store: Arc<dyn IdempotencyStore>,
        key: IdempotencyKey,
        token: ClaimToken,
    ) -> Self {
        Self {
            store,
            key,
            token,
            attempt: AttemptNumber::FIRST,
            fingerprint: Fingerprint::of_bytes("the request"),
            lease: LONG,
            retention: LONG,
            takeover: Takeover::Allow,
        }
    }

    // what it asks for

    pub(crate) fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    pub(crate) fn retention(self, retention: Duration) -> Self {
        Self { retention, ..self }
    }

    pub(crate) fn refusing(self) -> Self {
        Self { takeover: Takeover::Refuse, ..self }
    }

    pub(crate) fn asking(self, request: &str) -> Self {
        self.with_fingerprint(Fingerprint::of_bytes(request))
    }

    pub(crate) fn with_fingerprint(self, fingerprint: Fingerprint) -> Self {
        Self { fingerprint, ..self }
    }

    pub(crate) fn in_attempt(self, attempt: AttemptNumber) -> Self {
        Self { attempt, ..self }
    }

    pub(crate) fn via(self, store: Arc<dyn IdempotencyStore>) -> Self {
        Self { store, ..self }
    }

    // the operations, as the store answers them

    pub(crate) async fn try_claim(&self) -> Verdict<Result<ClaimOutcome, StoreError>> {
        let request = ClaimRequest {
            key: &self.key,
            fingerprint: self.fingerprint,
            token: self.token,
            lease: lease(self.lease)?,
            retention: retention(self.retention)?,
            takeover: self.takeover,
        };
        Ok(self.store.claim(request).await)
    }

    pub(crate) async fn try_complete(
        &self,
        response: impl Into<Bytes>,
    ) -> Verdict<Result<FinishOutcome, StoreError>> {
        let request = CompleteRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            fingerprint: self.fingerprint,
            response: response.into(),
            retention: retention(self.retention)?,
        };
        Ok(self.store.complete(request).await)
    }

    pub(crate) async fn try_renew(
        &self,
        renewal: Renewal,
    ) -> Verdict<Result<RenewOutcome, StoreError>> {
        let request = RenewRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            sequence: NonZeroU64::new(renewal.sequence).unwrap_or(NonZeroU64::MIN),
            lease: lease(renewal.lease)?,
            checkpoint: renewal.checkpoint,
        };
        Ok(self.store.renew(request).await)
    }

    pub(crate) async fn try_release(&self, release: Release) -> Result<ReleaseOutcome, StoreError> {
        let request =
            ReleaseRequest { key: &self.key, token: self.token, attempt: self.attempt, release };
        self.store.release(request).await
    }

    // the operations of a store that answers

    pub(crate) async fn claim(&self) -> Verdict<ClaimOutcome> {
        let answer = self.try_claim().await?;
        answer.map_err(|error| Halt::error("claim", &error))
    }

    pub(crate) async fn complete(&self, response: impl Into<Bytes>) -> Verdict<FinishOutcome> {
        let answer = self.try_complete(response).await?;
        answer.map_err(|error| Halt::error("complete", &error))
    }

    pub(crate) async fn renew(&self, renewal: Renewal) -> Verdict<RenewOutcome> {
        let answer = self.try_renew(renewal).await?;
        answer.map_err(|error| Halt::error("renew", &error))
    }

    pub(crate) async fn release(&self, release: Release) -> Verdict<ReleaseOutcome> {
        let answer = self.try_release(release).await;
        answer.map_err(|error| Halt::error("release", &error))
    }

    // claims whose answer is known

    /// Claims and holds from now on.
    pub(crate) async fn acquire(self) -> Verdict<Self> {
        let attempt = self.acquired().await?.attempt;
        Ok(self.in_attempt(attempt))
    }

    pub(crate) async fn acquired(&self) -> Verdict<Acquired> {
        match self.claim().await? {
            ClaimOutcome::Acquired(acquired) => Ok(acquired),
            other => Err(unexpected("Acquired", &other)),
        }
    }

    pub(crate) async fn replayed(&self) -> Verdict<Replay> {
        match self.claim().await? {
            ClaimOutcome::Replay(replay) => Ok(replay),
            other => Err(unexpected("Replay", &other)),
        }
    }

    pub(crate) async fn in_progress(&self) -> Verdict<Running> {
        match self.claim().await? {
            ClaimOutcome::InProgress(running) => Ok(running),
            other => Err(unexpected("InProgress", &other)),
        }
    }

    pub(crate) async fn abandoned(&self) -> Verdict<Abandoned> {
        match self.claim().await? {
            ClaimOutcome::Abandoned(abandoned) => Ok(abandoned),
            other => Err(unexpected("Abandoned", &other)),
        }
    }

    /// Fails unless the answer is Mismatch; gives the stored version.
    pub(crate) async fn mismatched(&self) -> Verdict<u8> {
        match self.claim().await? {
            ClaimOutcome::Mismatch(mismatch) => Ok(mismatch.stored_version),
            other => Err(unexpected("Mismatch", &other)),
        }
    }

    /// Fails unless the claim is refused because its token was given back before.
    pub(crate) async fn spent(&self) -> Verdict {
        use idempotency_core::ErrorKind::TokenSpent;
        match self.try_claim().await? {
            Err(error) if error.kind() == TokenSpent => Ok(()),
            answer => Err(Halt::fail(
                "the claim of a spent token",
                "the error TokenSpent",
                format!("{answer:?}"),
            )),
        }
    }

    /// Renews for a long time and fails unless it is held.
    pub(crate) async fn held(&self, renewal: Renewal) -> Verdict<Duration> {
        match self.renew(renewal).await? {
            RenewOutcome::Held { lease_remaining } => Ok(lease_remaining),
            RenewOutcome::Lost => Err(Halt::fail("renew", "Held", "Lost")),
        }
    }
}

fn unexpected(expected: &str, got: &ClaimOutcome) -> Halt {
    Halt::fail("claim", expected, format!("{got:?}"))
}
