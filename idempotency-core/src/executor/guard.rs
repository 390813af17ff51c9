use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    Answer, Attempt, EventKind, NotKeptReason, Recorded,
    attempt::Inner,
    call::{Answered, Call},
    heartbeat::Heartbeat,
    held::Held,
    measurement::Lasting,
    settings::Settings,
    shared::Shared,
};
use crate::{
    attempt_number::AttemptNumber,
    fingerprint::Fingerprint,
    key::IdempotencyKey,
    store::{
        CompleteRequest, ErrorKind, FinishOutcome, Operation, Release, ReleaseOutcome,
        ReleaseRequest, StoreError,
    },
    time::Retention,
};

/// The right to execute, kept alive by a heartbeat until it is completed or released.
///
/// Dropping it frees nothing: the work may have happened, so the claim is left to its lease, and the
/// next attempt is told that it is not the first.
#[derive(Debug)]
#[must_use = "complete or release it; a dropped guard leaves its key to the lease"]
pub struct ClaimGuard {
    attempt: Attempt,
    /// None: without protection.
    claim: Option<Box<Claim>>,
    /// Of work without protection; a claim has its own.
    _unprotected: Option<Lasting>,
}

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) held: Held,
    pub(super) fingerprint: Fingerprint,
    pub(super) settings: Arc<Settings>,
    /// None once it is stopped.
    pub(super) heartbeat: Option<Heartbeat>,
    /// Whether the store was told how the work ended, or could not be told.
    pub(super) settled: bool,
    /// Dropped last, after the event of a claim that nobody settled.
    pub(super) _hold: Option<Lasting>,
}

impl ClaimGuard {
    pub(super) fn protected(attempt: Attempt, claim: Claim) -> Self {
        Self::from_parts(attempt, Some(Box::new(claim)))
    }

    pub(super) fn unprotected(shared: &Arc<Shared>, key: IdempotencyKey) -> Self {
        let attempt = Attempt::new(Inner {
            key,
            number: AttemptNumber::FIRST,
            checkpoint: None,
            first_attempt_ago: Duration::ZERO,
            lost: CancellationToken::new(),
            protection: None,
        });
        Self { attempt, claim: None, _unprotected: Lasting::hold(shared) }
    }

    pub(super) fn from_parts(attempt: Attempt, claim: Option<Box<Claim>>) -> Self {
        Self { attempt, claim, _unprotected: None }
    }

    pub(super) fn into_parts(self) -> (Attempt, Option<Box<Claim>>) {
        (self.attempt, self.claim)
    }

    /// What the work needs to know.
    pub const fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// Keeps the answer for another time than the executor's: of an answer that says itself how long it
    /// is good for. Or for the lease where that is longer: a retry may come as late as it ends.
    pub fn with_retention(mut self, retention: Retention) -> Self {
        if let Some(claim) = &mut self.claim {
            let settings = Arc::make_mut(&mut claim.settings);
            settings.retention = retention.max(Retention::from(settings.lease));
        }
        self
    }

    /// How long the answer will be kept; none without protection.
    pub fn retention(&self) -> Option<Retention> {
        self.claim.as_ref().map(|claim| claim.settings.retention)
    }

    /// Stores the answer. Tries until the lease ends, and once in any case.
    ///
    /// An answer that is too large for the store is replaced by the fact that it was not kept, so
    /// that a retry does not run again.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the answer stored or not; the key is never freed by it.
    pub async fn complete(mut self, answer: Answer) -> Recorded {
        let Some(mut claim) = self.claim.take() else {
            return Recorded::Unprotected;
        };
        claim.stop_heartbeat().await;
        if claim.held.lease_state.refused.is_cancelled() {
            return Recorded::Lost;
        }
        let recorded = claim.record(answer).await;
        claim.tell(&recorded);
        recorded
    }

    /// Gives the key back without an answer, with what is known of the work.
    ///
    /// # Errors
    /// The store did not answer: the key may be held until the lease ends.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the key released or held until its lease ends.
    pub async fn release(mut self, release: Release) -> Result<ReleaseOutcome, StoreError> {
        let Some(mut claim) = self.claim.take() else {
            return Ok(ReleaseOutcome::Released);
        };
        claim.stop_heartbeat().await;
        if claim.held.lease_state.refused.is_cancelled() {
            return Ok(ReleaseOutcome::Lost);
        }
        let released = claim.give_back(release).await;
        match &released {
            Ok(ReleaseOutcome::Released) => claim.held.observe(EventKind::Released(release)),
            Ok(ReleaseOutcome::Lost) => claim.held.lose(),
            Err(_) => claim.held.observe(EventKind::ReleaseFailed(release)),
        }
        claim.settled = true;
        claim.held.shared.waiters.wake(&claim.held.key);
        released
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled && !self.held.lease_state.refused.is_cancelled() {
            self.held.observe(EventKind::Dropped);
        }
    }
}

impl Claim {
    pub(super) async fn stop_heartbeat(&mut self) {
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.stop().await;
        }
    }

    /// The answer, or when it is too large for the store the fact that it was not kept.
    pub(super) fn fitting(&self, answer: Answer) -> Answer {
        if answer.as_stored().len() > self.held.shared.store.profile().max_response_bytes {
            return Answer::not_kept(NotKeptReason::TooLarge);
        }
        answer
    }

    /// What a completion with `answer` came to.
    pub(super) fn recorded(&self, outcome: FinishOutcome, answer: &Answer) -> Recorded {
        let limit = self.held.shared.store.profile().max_response_bytes;
        let kept = answer.as_stored().len() <= limit && !answer.is_not_kept();
        match outcome {
            FinishOutcome::Done if kept => Recorded::Stored,
            FinishOutcome::Done => Recorded::NotKept,
            FinishOutcome::Restored => Recorded::Restored,
            FinishOutcome::Lost => Recorded::Lost,
        }
    }

    /// Makes the event of a completion and wakes the waiters.
    pub(super) fn tell(&mut self, recorded: &Recorded) {
        match recorded {
            Recorded::Stored | Recorded::Unprotected => self.settle(EventKind::Completed),
            Recorded::NotKept => self.settle(EventKind::NotKept),
            Recorded::Restored => self.settle(EventKind::Restored),
            Recorded::Unrecorded(_) => self.settle(EventKind::Unrecorded),
            Recorded::Lost => {
                self.held.lose();
                self.settled = true;
                self.held.shared.waiters.wake(&self.held.key);
            }
        }
    }

    pub(super) fn settle(&mut self, event: EventKind) {
        self.held.observe(event);
        self.settled = true;
        self.held.shared.waiters.wake(&self.held.key);
    }

    pub(super) async fn record(&self, answer: Answer) -> Recorded {
        let answer = self.fitting(answer);
        match self.send(&answer).await {
            Ok(outcome) => self.recorded(outcome, &answer),
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                // the store counts otherwise than its profile says
                match self.send(&Answer::not_kept(NotKeptReason::TooLarge)).await {
                    Ok(FinishOutcome::Done | FinishOutcome::Restored) => Recorded::NotKept,
                    Ok(FinishOutcome::Lost) => Recorded::Lost,
                    Err(error) => Recorded::Unrecorded(error),
                }
            }
            Err(error) => Recorded::Unrecorded(error),
        }
    }

    pub(super) fn completion(&self, answer: &Answer) -> CompleteRequest<'_> {
        let held = &self.held;
        CompleteRequest {
            key: &held.key,
            token: held.token,
            attempt: held.attempt,
            fingerprint: self.fingerprint,
            response: answer.as_stored().clone(),
            retention: self.settings.retention,
        }
    }

    pub(super) fn giving_back(&self, release: Release) -> ReleaseRequest<'_> {
        let held = &self.held;
        ReleaseRequest { key: &held.key, token: held.token, attempt: held.attempt, release }
    }

    async fn send(&self, answer: &Answer) -> Result<FinishOutcome, StoreError> {
        let held = &self.held;
        let request = self.completion(answer);
        let again = |error: &StoreError| {
            error.is_transient()
                || matches!(
                    error.kind(),
                    ErrorKind::Full | ErrorKind::Denied | ErrorKind::Unexpected
                )
        };
        let call = self.call(Operation::Complete, held.lease_state.deadline(), again);
        call.run(|| held.shared.store().complete(request.clone())).await.map(|a| a.answer)
    }

    pub(super) async fn give_back(&self, release: Release) -> Result<ReleaseOutcome, StoreError> {
        let held = &self.held;
        let request = self.giving_back(release);
        let until = held.shared.clock.monotonic().saturating_add(self.settings.store_deadline);
        let call = self.call(Operation::Release, until, StoreError::is_transient);
        let Answered { answer, .. } = call.run(|| held.shared.store().release(request)).await?;
        Ok(answer)
    }

    pub(super) fn call(
        &self,
        operation: Operation,
        until: Duration,
        again: fn(&StoreError) -> bool,
    ) -> Call<'_> {
        let timeout = self.settings.store_timeout;
        Call { shared: &self.held.shared, key: &self.held.key, operation, timeout, until, again }
    }
}
