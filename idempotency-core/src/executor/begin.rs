use std::{num::NonZeroU64, sync::Arc, time::Duration};

use super::{
    Answer, Attempt, Begun, ClaimGuard, Error, EventKind, Idempotency, OnDuplicate, OnStoreFailure,
    Replayed,
    attempt::{Inner, Protection},
    call::{Answered, Call},
    guard::Claim,
    heartbeat::Heartbeat,
    held::{Held, LeaseState},
    joining::Joining,
    measurement::Lasting,
    waiters::Waiter,
};
use crate::{
    attempt_number::AttemptNumber,
    fingerprint::Fingerprint,
    key::IdempotencyKey,
    store::{
        Acquired, ClaimOutcome, ClaimRequest, ErrorKind, Operation, RenewOutcome, Replay, Running,
        StoreError, Takeover,
    },
    token::ClaimToken,
};

/// How often a claim that is lost before the work could start is made again.
const MAX_CLAIMS: u32 = 3;

/// One call of `begin`.
pub(super) struct Beginning<'a> {
    pub(super) executor: &'a Idempotency,
    pub(super) key: &'a IdempotencyKey,
    pub(super) fingerprint: Fingerprint,
    token: ClaimToken,
    started_at: Duration,
    waiter: Option<Waiter>,
    waiting: Option<Lasting>,
    lost_claims: u32,
    /// Whether the store has said something of the key.
    has_heard: bool,
}

/// What follows from one answer.
pub(super) enum Next {
    Done(Begun),
    ClaimAgain,
}

impl<'a> Beginning<'a> {
    pub(super) fn new(
        executor: &'a Idempotency,
        key: &'a IdempotencyKey,
        fingerprint: Fingerprint,
    ) -> Result<Self, Error> {
        Ok(Self {
            executor,
            key,
            fingerprint,
            token: ClaimToken::random()?,
            started_at: executor.shared.clock.monotonic(),
            waiter: None,
            waiting: None,
            lost_claims: 0,
            has_heard: false,
        })
    }

    pub(super) async fn run(mut self) -> Result<Begun, Error> {
        loop {
            let Answered { answer, sent_at } =
                match self.claim(self.executor.settings.takeover).await {
                    Ok(answered) => answered,
                    Err(error) => return self.without_store(error),
                };
            self.has_heard = true;
            let next = match answer {
                ClaimOutcome::Acquired(acquired) => self.start(&acquired, sent_at).await?,
                ClaimOutcome::Replay(replay) => Next::Done(self.replay(&replay)?),
                ClaimOutcome::InProgress(running) => self.wait(running).await,
                ClaimOutcome::Mismatch(mismatch) => {
                    self.observe(EventKind::Mismatch, None, None);
                    Next::Done(Begun::Mismatch(mismatch))
                }
                // what is rare is boxed: it would make the future of every request larger
                ClaimOutcome::Abandoned(abandoned) => Box::pin(self.recover(abandoned)).await?,
            };
            if let Next::Done(begun) = next {
                return Ok(begun);
            }
        }
    }

    pub(super) async fn claim(
        &self,
        takeover: Takeover,
    ) -> Result<Answered<ClaimOutcome>, StoreError> {
        let (shared, settings) = (&self.executor.shared, &self.executor.settings);
        let request = ClaimRequest {
            key: self.key,
            fingerprint: self.fingerprint,
            token: self.token,
            lease: settings.lease,
            retention: settings.retention,
            takeover,
        };
        let call = Call {
            shared,
            key: self.key,
            operation: Operation::Claim,
            timeout: settings.store_timeout,
            until: shared.clock.monotonic().saturating_add(settings.store_deadline),
            again: StoreError::is_transient,
        };
        call.run(|| shared.store().claim(request)).await
    }

    async fn start(&mut self, acquired: &Acquired, sent_at: Duration) -> Result<Next, Error> {
        let Some(guard) = self.hold(acquired, sent_at).await? else {
            return self.claim_anew().map(|()| Next::ClaimAgain);
        };
        let first = acquired.attempt == AttemptNumber::FIRST;
        let kind = if first { EventKind::Acquired } else { EventKind::TakenOver };
        self.observe(kind, Some(acquired.attempt), Some(acquired.first_attempt_ago));
        Ok(Next::Done(Begun::Acquired(guard)))
    }

    /// Keeps the claim alive from here on. None: it was lost before the work could start.
    ///
    /// The lease counts from before the claim was sent; when little of it is left, it is renewed
    /// before anything begins (C61).
    pub(super) async fn hold(
        &self,
        acquired: &Acquired,
        sent_at: Duration,
    ) -> Result<Option<ClaimGuard>, Error> {
        let (shared, settings) = (&self.executor.shared, &self.executor.settings);
        let deadline = LeaseState::end_of(sent_at, acquired.lease_remaining);
        let held = Held {
            shared: Arc::clone(shared),
            key: self.key.clone(),
            token: self.token,
            attempt: acquired.attempt,
            lease: settings.lease,
            // an attempt that began before the clock's origin began at its origin
            first_attempt_at: sent_at.saturating_sub(acquired.first_attempt_ago),
            lease_state: Arc::new(LeaseState::new(deadline)),
        };
        let mut sequence = NonZeroU64::MIN;
        loop {
            let now = shared.clock.monotonic();
            if held.lease_state.deadline().saturating_sub(now) > settings.lease.get() / 3 {
                break;
            }
            if sequence.get() > u64::from(MAX_CLAIMS) {
                Box::pin(held.give_up(settings)).await;
                return Err(Error::StoreTooSlow { lease: settings.lease.get() });
            }
            let until = now.saturating_add(settings.store_deadline);
            let renewal = held.renew(sequence, None, settings.store_timeout, until);
            match Box::pin(renewal).await? {
                RenewOutcome::Held { .. } => sequence = sequence.saturating_add(1),
                RenewOutcome::Lost => return Ok(None),
            }
        }
        let (heartbeat, checkpoints) = Heartbeat::start(held.clone(), settings, sequence);
        let joining =
            Joining::new(self.token, self.fingerprint, settings, shared.store().profile());
        let attempt = Attempt::new(Inner {
            key: self.key.clone(),
            number: acquired.attempt,
            checkpoint: acquired.checkpoint.clone(),
            first_attempt_ago: acquired.first_attempt_ago,
            lost: held.lease_state.lost.clone(),
            protection: Some(Protection { checkpoints, joining }),
        });
        let claim = Claim {
            held,
            fingerprint: self.fingerprint,
            settings: Arc::clone(settings),
            heartbeat: Some(heartbeat),
            settled: false,
            _hold: Lasting::hold(shared),
        };
        Ok(Some(ClaimGuard::protected(attempt, claim)))
    }

    /// A token that was lost is never used again (C47).
    pub(super) fn claim_anew(&mut self) -> Result<(), Error> {
        self.lost_claims += 1;
        if self.lost_claims >= MAX_CLAIMS {
            return Err(Error::KeptLosing { tries: self.lost_claims });
        }
        self.token = ClaimToken::random()?;
        Ok(())
    }

    fn replay(&self, replay: &Replay) -> Result<Begun, Error> {
        let answer = Answer::from_stored(replay.response.clone())?;
        let (attempt, ago) = (Some(replay.attempt), Some(replay.first_attempt_ago));
        self.observe(EventKind::Replayed, attempt, ago);
        Ok(Begun::Replayed(Replayed::new(answer, replay)))
    }

    async fn wait(&mut self, running: Running) -> Next {
        let shared = &self.executor.shared;
        let timeout = match self.executor.settings.on_duplicate {
            OnDuplicate::Reject => Duration::ZERO,
            OnDuplicate::Wait { timeout } => timeout,
        };
        let waited = shared.clock.monotonic().saturating_sub(self.started_at);
        let left = timeout.saturating_sub(waited);
        if left.is_zero() {
            self.observe(EventKind::InProgress, Some(running.attempt), None);
            return Next::Done(Begun::InProgress(running));
        }
        match &mut self.waiter {
            // what changed before the watch began shows in the next claim
            None => {
                self.waiter = Some(shared.waiters.wait_for(self.key));
                self.waiting = Lasting::wait(shared);
            }
            Some(changes) => {
                let profile = shared.store.profile();
                let lease_end = running.lease_remaining + profile.skew_bound + profile.time_step;
                changes.changed(left.min(lease_end)).await;
            }
        }
        Next::ClaimAgain
    }

    /// The store did not answer the claim: run without protection, if that is what was asked for, and
    /// the store has not said before that the key is another attempt's.
    fn without_store(&self, error: StoreError) -> Result<Begun, Error> {
        let down = error.is_transient() || error.kind() == ErrorKind::Full;
        if !down
            || self.has_heard
            || self.executor.settings.on_store_failure == OnStoreFailure::FailClosed
        {
            return Err(error.into());
        }
        self.observe(EventKind::RanUnprotected, None, None);
        Ok(Begun::Acquired(ClaimGuard::unprotected(&self.executor.shared, self.key.clone())))
    }

    pub(super) fn observe(
        &self,
        kind: EventKind,
        attempt: Option<AttemptNumber>,
        ago: Option<Duration>,
    ) {
        self.executor.shared.observe(kind, self.key, attempt, ago);
    }
}
