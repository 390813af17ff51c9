use std::{
    num::NonZeroU64,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{EventKind, call::Call, settings::Settings, shared::Shared};
use crate::{
    attempt_number::AttemptNumber,
    key::IdempotencyKey,
    store::{Operation, Release, ReleaseRequest, RenewOutcome, RenewRequest, StoreError},
    time::Lease,
    token::ClaimToken,
};

/// A claim that is held, as the heartbeat, the completion and the release need it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) shared: Shared,
    pub(super) key: IdempotencyKey,
    pub(super) token: ClaimToken,
    pub(super) attempt: AttemptNumber,
    pub(super) lease: Lease,
    /// When attempt 1 began, on the monotonic clock.
    pub(super) first_attempt_at: Duration,
    pub(super) lease_state: Arc<LeaseState>,
}

/// What is known of the lease.
#[derive(Debug)]
pub(super) struct LeaseState {
    /// The instant until which it is sure to hold, on the monotonic clock (C61).
    deadline: Mutex<Duration>,
    /// Cancelled when it does not hold, or may not hold any more.
    pub(super) lost: CancellationToken,
    /// Cancelled when the store said that somebody else has the key: nothing more is sent (C62).
    pub(super) refused: CancellationToken,
}

impl LeaseState {
    pub(super) fn new(deadline: Duration) -> Self {
        let lost = CancellationToken::new();
        Self { deadline: Mutex::new(deadline), lost, refused: CancellationToken::new() }
    }

    pub(super) fn deadline(&self) -> Duration {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extend(&self, deadline: Duration) {
        let mut known = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        *known = deadline.max(*known);
    }
}

impl Held {
    /// Renews, trying until `until` (once, when that is past), and notes what is known of the lease.
    pub(super) async fn renew(
        &self,
        sequence: NonZeroU64,
        checkpoint: Option<&Bytes>,
        timeout: Duration,
        until: Duration,
    ) -> Result<RenewOutcome, StoreError> {
        let call = Call {
            shared: &self.shared,
            key: &self.key,
            operation: Operation::Renew,
            timeout,
            until,
            again: StoreError::is_transient,
        };
        let request = RenewRequest {
            key: &self.key,
            token: self.token,
            attempt: self.attempt,
            sequence,
            lease: self.lease,
            checkpoint: checkpoint.cloned(),
        };
        let answered = call.run(|| self.shared.store.renew(request.clone())).await?;
        match answered.answer {
            RenewOutcome::Held { lease_remaining } => {
                self.lease_state.extend(answered.sent_at.saturating_add(lease_remaining));
            }
            RenewOutcome::Lost => {
                self.lease_state.refused.cancel();
                self.lose();
            }
        }
        Ok(answered.answer)
    }

    /// Gives back a claim under which nothing has begun.
    pub(super) async fn give_up(&self, settings: &Settings) {
        let release = Release::NotStarted;
        let (token, attempt) = (self.token, self.attempt);
        let request = ReleaseRequest { key: &self.key, token, attempt, release };
        let call = Call {
            shared: &self.shared,
            key: &self.key,
            operation: Operation::Release,
            timeout: settings.store_timeout,
            until: Duration::ZERO,
            again: |_| false,
        };
        let released = call.run(|| self.shared.store.release(request)).await;
        self.observe(match released {
            Ok(_) => EventKind::Released(release),
            Err(_) => EventKind::ReleaseFailed(release),
        });
    }

    /// Tells the work, and whoever observes, that the key may be somebody else's.
    pub(super) fn lose(&self) {
        if !self.lease_state.lost.is_cancelled() {
            self.lease_state.lost.cancel();
            self.observe(EventKind::Lost);
        }
    }

    pub(super) fn observe(&self, kind: EventKind) {
        let ago = self.shared.clock.monotonic().saturating_sub(self.first_attempt_at);
        self.shared.observe(kind, &self.key, Some(self.attempt), Some(ago));
    }
}
