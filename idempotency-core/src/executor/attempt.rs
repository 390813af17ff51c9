use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{CheckpointError, joining::Joining, pulse::CheckpointSender};
use crate::{
    attempt_number::AttemptNumber,
    key::{IdempotencyKey, KeyDigest, KeyError, Scope, ShownDigest},
};

/// One execution under a key, as the work sees it. Cheap to clone.
#[derive(Clone)]
pub struct Attempt(Arc<Inner>);

pub(super) struct Inner {
    pub(super) key: IdempotencyKey,
    pub(super) number: AttemptNumber,
    pub(super) checkpoint: Option<Bytes>,
    pub(super) first_attempt_ago: Duration,
    pub(super) lost: CancellationToken,
    /// None: without protection.
    pub(super) protection: Option<Protection>,
}

/// The claim that protects an attempt, as the work may use it.
pub(super) struct Protection {
    pub(super) checkpoints: CheckpointSender,
    pub(super) joining: Joining,
}

impl Attempt {
    pub(super) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// 1 for the first execution. More than 1: an earlier attempt may have done the work, in whole
    /// or in part.
    ///
    /// Pass it to what the work changes as a fencing number, where that can refuse a smaller one.
    pub fn number(&self) -> AttemptNumber {
        self.0.number
    }

    /// What an earlier attempt left with [`save_checkpoint`](Self::save_checkpoint).
    pub fn checkpoint(&self) -> Option<&Bytes> {
        self.0.checkpoint.as_ref()
    }

    /// The key.
    pub fn key(&self) -> &IdempotencyKey {
        &self.0.key
    }

    /// What stands for the key in logs.
    pub fn key_digest(&self) -> KeyDigest {
        self.0.key.digest()
    }

    /// A `tracing` span named `idempotency.attempt`, with digest and attempt: what is logged inside it
    /// can be found by its key. [`run`](super::Idempotency::run) and the HTTP layer work inside one.
    pub fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "idempotency.attempt",
            key = %ShownDigest(self.key()),
            attempt = self.number().get()
        )
    }

    /// Time from the beginning of attempt 1 to the beginning of this one.
    pub fn first_attempt_ago(&self) -> Duration {
        self.0.first_attempt_ago
    }

    /// Whether a claim protects this attempt. False only when the store was down and the executor
    /// is set to fail open.
    pub fn is_protected(&self) -> bool {
        self.0.protection.is_some()
    }

    /// Ends when the attempt no longer holds its key: another one may run. Stop before the next effect.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn lost(&self) {
        self.0.lost.cancelled().await;
    }

    /// The same as a token to hand on, cancelled when the key is lost. It is the caller's own:
    /// cancelling it tells nobody.
    pub fn lost_token(&self) -> CancellationToken {
        self.0.lost.child_token()
    }

    /// Whether the attempt no longer holds its key.
    pub fn is_lost(&self) -> bool {
        self.0.lost.is_cancelled()
    }

    /// The key to use for a call downstream named `step`: the same in each attempt.
    ///
    /// # Errors
    /// The scope is refused.
    pub fn child_key<S>(&self, scope: S, step: &str) -> Result<IdempotencyKey, KeyError>
    where
        S: TryInto<Scope>,
        KeyError: From<S::Error>,
    {
        self.0.key.child(scope, step)
    }

    /// Leaves `checkpoint` for the next attempt, in the place of the last one, and renews the lease.
    ///
    /// # Errors
    /// `Lost`: stop the work. `Store`: not saved, or with effect unknown perhaps saved.
    ///
    /// # Cancel safety
    /// A dropped call may still save the checkpoint.
    pub async fn save_checkpoint(
        &self,
        checkpoint: impl Into<Bytes> + Send,
    ) -> Result<(), CheckpointError> {
        match &self.0.protection {
            None => Err(CheckpointError::Unprotected),
            Some(protection) => protection.checkpoints.send(checkpoint.into()).await,
        }
    }

    pub(super) fn protection(&self) -> Option<&Protection> {
        self.0.protection.as_ref()
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("number", &self.0.number)
            .field("key", &self.0.key)
            .field("checkpoint_bytes", &self.0.checkpoint.as_ref().map(Bytes::len))
            .field("first_attempt_ago", &self.0.first_attempt_ago)
            .field("is_lost", &self.is_lost())
            .field("is_protected", &self.is_protected())
            .finish()
    }
}
