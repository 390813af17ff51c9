use std::sync::Arc;

use serde::Serialize;

use super::{
    Answer, Attempt, ClaimGuard, Classify, Disposition, EventKind, NotKeptReason, Recorded,
    guard::Claim,
};
use crate::store::{
    CompleteRequest, FinishOutcome, Release, ReleaseOutcome, ReleaseRequest, StoreError,
};

/// A claim without a heartbeat, for a store that completes it inside a transaction of its own.
///
/// Nothing renews its lease. Whoever holds it keeps the key by other means (a row lock, say), stores
/// what [`completion`](Self::completion) says, and then tells here what became of it: that makes the
/// events and wakes the waiters. Dropping it leaves the key to its lease.
#[derive(Debug)]
#[must_use = "say what became of it; dropped, it leaves its key to the lease"]
pub struct DetachedClaim {
    attempt: Attempt,
    claim: Box<Claim>,
}

impl ClaimGuard {
    /// Ends the heartbeat, after the renewal that is in flight (C62), and gives the claim to a store
    /// that keeps it by other means. None for a guard without protection.
    ///
    /// From here on [`Attempt::save_checkpoint`] fails, and nobody signals [`Attempt::lost`].
    pub async fn detach(self) -> Option<DetachedClaim> {
        let (attempt, claim) = self.into_parts();
        let mut claim = claim?;
        claim.stop_heartbeat().await;
        Some(DetachedClaim { attempt, claim })
    }
}

impl DetachedClaim {
    /// What the work needs to know.
    pub const fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// The answer that stands for the result of the work, as [`run`](super::Idempotency::run) stores
    /// it. What cannot be encoded or is too large for the store becomes the fact that it is done.
    pub fn answer_of<T, E>(&self, result: &Result<T, E>) -> Answer
    where
        T: Serialize,
        E: Serialize,
    {
        let answer = Answer::value(result, self.claim.settings.codec)
            .unwrap_or_else(|_| Answer::not_kept(NotKeptReason::NotEncodable));
        self.claim.fitting(answer)
    }

    /// What becomes of the key after the work has ended with `result`, by the policy in force.
    pub fn disposition_of<T, E: Classify>(&self, result: &Result<T, E>) -> Disposition {
        match result {
            Ok(_) => Disposition::Store,
            Err(error) => self.claim.settings.policy.of_error(error.disposition()),
        }
    }

    /// What to store for `answer`; one that is too large becomes the fact that it is done.
    pub fn completion(&self, answer: Answer) -> CompleteRequest<'_> {
        self.claim.completion(&self.claim.fitting(answer))
    }

    /// How to give the key back.
    pub fn giving_back(&self, release: Release) -> ReleaseRequest<'_> {
        self.claim.giving_back(release)
    }

    /// The transaction has ended, and this is what its completion with `answer` came to.
    pub fn finished(mut self, outcome: FinishOutcome, answer: &Answer) -> Recorded {
        let recorded = self.claim.recorded(outcome, answer);
        self.claim.tell(&recorded);
        recorded
    }

    /// It is not known whether the transaction was committed: after its lease the key can run again.
    pub fn unrecorded(mut self) {
        self.claim.settle(EventKind::Unrecorded);
    }

    /// The key was given back by the holder's own means.
    pub fn released(mut self, release: Release) {
        self.claim.settle(EventKind::Released(release));
    }

    /// Somebody else has the key.
    pub fn lost(mut self) {
        self.claim.held.lose();
        self.claim.settled = true;
    }

    /// Gives the key back, as [`ClaimGuard::release`].
    ///
    /// # Errors
    /// The store did not answer: the key is held until the lease ends.
    pub async fn release(self, release: Release) -> Result<ReleaseOutcome, StoreError> {
        let Self { attempt, claim } = self;
        ClaimGuard::from_parts(attempt, Some(claim)).release(release).await
    }

    /// How long the claim may be settled: until its lease ends.
    pub fn lease_left(&self) -> std::time::Duration {
        let held = &self.claim.held;
        let clock = Arc::clone(&held.shared.clock);
        held.lease_state.deadline().saturating_sub(clock.monotonic())
    }
}
