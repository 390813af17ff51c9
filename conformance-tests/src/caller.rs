//! Somebody who uses a store: one key, one token, and what it asks for.

use std::{future::Future, num::NonZeroU64, panic::Location, sync::Arc, time::Duration};

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

    #[track_caller]
    pub(crate) fn claim(&self) -> impl Future<Output = Verdict<ClaimOutcome>> + Send {
        found_at(Location::caller(), async move {
            let answer = self.try_claim().await?;
            answer.map_err(|error| Halt::error("claim", &error))
        })
    }

    #[track_caller]
    pub(crate) fn complete(
        &self,
        response: impl Into<Bytes> + Send,
    ) -> impl Future<Output = Verdict<FinishOutcome>> + Send {
        let response = response.into();
        found_at(Location::caller(), async move {
            let answer = self.try_complete(response).await?;
            answer.map_err(|error| Halt::error("complete", &error))
        })
    }

    #[track_caller]
    pub(crate) fn renew(
        &self,
        renewal: Renewal,
    ) -> impl Future<Output = Verdict<RenewOutcome>> + Send {
        found_at(Location::caller(), async move {
            let answer = self.try_renew(renewal).await?;
            answer.map_err(|error| Halt::error("renew", &error))
        })
    }

    #[track_caller]
    pub(crate) fn release(
        &self,
        release: Release,
    ) -> impl Future<Output = Verdict<ReleaseOutcome>> + Send {
        found_at(Location::caller(), async move {
            let answer = self.try_release(release).await;
            answer.map_err(|error| Halt::error("release", &error))
        })
    }

    // claims whose answer is known

    /// Claims and holds from now on.
    #[track_caller]
    pub(crate) fn acquire(self) -> impl Future<Output = Verdict<Self>> + Send {
        found_at(Location::caller(), async move {
            let attempt = self.acquired().await?.attempt;
            Ok(self.in_attempt(attempt))
        })
    }

    #[track_caller]
    pub(crate) fn acquired(&self) -> impl Future<Output = Verdict<Acquired>> + Send {
        found_at(Location::caller(), async move {
            match self.claim().await? {
                ClaimOutcome::Acquired(acquired) => Ok(acquired),
                other => Err(unexpected("Acquired", &other)),
            }
        })
    }

    #[track_caller]
    pub(crate) fn replayed(&self) -> impl Future<Output = Verdict<Replay>> + Send {
        found_at(Location::caller(), async move {
            match self.claim().await? {
                ClaimOutcome::Replay(replay) => Ok(replay),
                other => Err(unexpected("Replay", &other)),
            }
        })
    }

    #[track_caller]
    pub(crate) fn in_progress(&self) -> impl Future<Output = Verdict<Running>> + Send {
        found_at(Location::caller(), async move {
            match self.claim().await? {
                ClaimOutcome::InProgress(running) => Ok(running),
                other => Err(unexpected("InProgress", &other)),
            }
        })
    }

    #[track_caller]
    pub(crate) fn abandoned(&self) -> impl Future<Output = Verdict<Abandoned>> + Send {
        found_at(Location::caller(), async move {
            match self.claim().await? {
                ClaimOutcome::Abandoned(abandoned) => Ok(abandoned),
                other => Err(unexpected("Abandoned", &other)),
            }
        })
    }

    /// Fails unless the answer is Mismatch; gives the stored version.
    #[track_caller]
    pub(crate) fn mismatched(&self) -> impl Future<Output = Verdict<u8>> + Send {
        found_at(Location::caller(), async move {
            match self.claim().await? {
                ClaimOutcome::Mismatch(mismatch) => Ok(mismatch.stored_version),
                other => Err(unexpected("Mismatch", &other)),
            }
        })
    }

    /// Fails unless the claim is refused because its token was given back before.
    #[track_caller]
    pub(crate) fn spent(&self) -> impl Future<Output = Verdict> + Send {
        found_at(Location::caller(), async move {
            use idempotency_core::ErrorKind::TokenSpent;
            match self.try_claim().await? {
                Err(error) if error.kind() == TokenSpent => Ok(()),
                answer => Err(Halt::fail(
                    "the claim of a spent token",
                    "the error TokenSpent",
                    format!("{answer:?}"),
                )),
            }
        })
    }

    /// Renews for a long time and fails unless it is held.
    #[track_caller]
    pub(crate) fn held(&self, renewal: Renewal) -> impl Future<Output = Verdict<Duration>> + Send {
        found_at(Location::caller(), async move {
            match self.renew(renewal).await? {
                RenewOutcome::Held { lease_remaining } => Ok(lease_remaining),
                RenewOutcome::Lost => Err(Halt::fail("renew", "Held", "Lost")),
            }
        })
    }
}

/// Whatever `work` fails with was found at `at`: in the case, not here.
async fn found_at<T>(
    at: &'static Location<'static>,
    work: impl Future<Output = Verdict<T>> + Send,
) -> Verdict<T> {
    work.await.map_err(|halt| halt.at(at))
}

fn unexpected(expected: &str, got: &ClaimOutcome) -> Halt {
    Halt::fail("claim", expected, format!("{got:?}"))
}
