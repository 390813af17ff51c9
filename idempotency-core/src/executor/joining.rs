use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Answer, Attempt, ClaimGuard, EventKind, NotKeptReason, Recorded, guard::Claim,
    settings::Settings,
};
use crate::{
    fingerprint::Fingerprint,
    record::State,
    store::{CompleteRequest, Operation, Release, ReleaseOutcome, StoreError, StoreProfile},
    time::{Lease, Retention},
    token::ClaimToken,
};

/// What an attempt needs for a completion inside a transaction of the work's.
///
/// It holds the token, so it is never shown.
pub(super) struct Joining {
    token: ClaimToken,
    fingerprint: Fingerprint,
    lease: Lease,
    max_response_bytes: usize,
    timeout: Duration,
    state: Mutex<Join>,
}

struct Join {
    /// The last answer that was to be completed that way.
    answer: Option<Answer>,
    retention: Retention,
}

impl Joining {
    pub(super) fn new(
        token: ClaimToken,
        fingerprint: Fingerprint,
        settings: &Settings,
        profile: &StoreProfile,
    ) -> Self {
        Self {
            token,
            fingerprint,
            lease: settings.lease,
            max_response_bytes: profile.max_response_bytes,
            timeout: settings.store_timeout,
            state: Mutex::new(Join { answer: None, retention: settings.retention }),
        }
    }

    fn state(&self) -> MutexGuard<'_, Join> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    /// What to store for `answer`, for a store that completes this attempt inside a transaction of the
    /// work's own: what the work has written and its answer then are there together or not at all. None
    /// for an attempt without protection.
    ///
    /// Ends the heartbeat first, after the renewal that is in flight (C62): nothing renews the lease from
    /// here on, [`save_checkpoint`](Self::save_checkpoint) fails, and nobody signals
    /// [`lost`](Self::lost). The store has to refuse the completion when the claim does not hold any more,
    /// and to keep others from the record until the transaction ends. Whoever has begun the attempt then
    /// asks with [`ClaimGuard::joined`] what became of it; [`run`](super::Idempotency::run) does so by
    /// itself, and there the answer is made with [`Answer::value`], so that repetitions can read it. An
    /// answer that is too large for the store becomes the fact that it is done.
    ///
    /// Applications call the store's own method, which calls this one.
    ///
    /// # Cancel safety
    /// Can be dropped and called again; the heartbeat ends all the same.
    pub async fn completion(&self, answer: &Answer) -> Option<CompleteRequest<'_>> {
        let protection = self.protection()?;
        let joining = &protection.joining;
        protection.checkpoints.stop_heartbeat(joining.timeout).await;
        let fits = answer.as_stored().len() <= joining.max_response_bytes;
        let answer = if fits { answer.clone() } else { Answer::not_kept(NotKeptReason::TooLarge) };
        let response = answer.as_stored().clone();
        let mut state = joining.state();
        state.answer = Some(answer);
        Some(CompleteRequest {
            key: self.key(),
            token: joining.token,
            attempt: self.number(),
            fingerprint: joining.fingerprint,
            response,
            retention: state.retention,
        })
    }

    /// The answer with which the work has joined this attempt to a transaction of its own, by
    /// [`completion`](Self::completion). Whether that was committed is said by [`ClaimGuard::joined`].
    pub fn joined_answer(&self) -> Option<Answer> {
        self.protection()?.joining.state().answer.clone()
    }

    /// Keeps what is completed that way for another time than the executor's, as
    /// [`ClaimGuard::with_retention`].
    pub fn set_joined_retention(&self, retention: Retention) {
        if let Some(protection) = self.protection() {
            let joining = &protection.joining;
            joining.state().retention = retention.max(Retention::from(joining.lease));
        }
    }

    /// How long what is completed that way is kept; none without protection.
    pub fn joined_retention(&self) -> Option<Retention> {
        Some(self.protection()?.joining.state().retention)
    }
}

/// What to do with an attempt that its work has joined to a transaction that was not committed.
#[derive(Clone, Debug)]
pub enum Otherwise {
    /// Store this answer.
    Complete(Answer),
    /// Give the key back.
    Release(Release),
}

/// What became of an attempt that its work has joined to a transaction of its own.
#[derive(Debug)]
#[must_use = "only a committed answer may be given out"]
pub enum Joined {
    /// The transaction was committed. This is the answer that every repetition gets.
    Committed(Answer),
    /// It was not committed, and the answer that was given otherwise is stored.
    Completed(Recorded),
    /// It was not committed, and the key was given back.
    Released(Release),
    /// Another attempt has the key; the transaction was not committed.
    Lost,
    /// The store did not answer before the lease ended: the answer may be there.
    Unknown(StoreError),
}

impl ClaimGuard {
    /// Finds out what became of the transaction that the work has joined this attempt to, whatever the
    /// work says of it: a commit can succeed and its answer be lost, and be forgotten as well.
    ///
    /// Where it was not committed, `otherwise` is done. An answer that equals the one that was joined is
    /// not stored then: it speaks of rows that are not there, so the key is released as unknown instead.
    /// A transaction that is still open is waited for, as long as the store waits for its row.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the attempt completed or released, or to its lease.
    pub async fn joined(self, otherwise: Otherwise) -> Joined {
        let (attempt, claim) = self.into_parts();
        let Some(mut claim) = claim else {
            return Joined::Completed(Recorded::Unprotected);
        };
        claim.stop_heartbeat().await;
        match claim.committed().await {
            Ok(Some(answer)) => return claim.end_committed(answer),
            Ok(None) => {}
            Err(error) => {
                claim.settle(EventKind::Unrecorded);
                return Joined::Unknown(error);
            }
        }
        let otherwise = match otherwise {
            Otherwise::Complete(answer) => match claim.fitting(answer) {
                answer if attempt.joined_answer().as_ref() == Some(&answer) => {
                    Otherwise::Release(Release::Unknown)
                }
                answer => Otherwise::Complete(answer),
            },
            release @ Otherwise::Release(_) => release,
        };
        let failed = match otherwise {
            Otherwise::Release(how) => match claim.give_back(how).await {
                Ok(ReleaseOutcome::Released) => {
                    claim.settle(EventKind::Released(how));
                    return Joined::Released(how);
                }
                Ok(ReleaseOutcome::Lost) => None,
                Err(error) => Some((EventKind::ReleaseFailed(how), error)),
            },
            Otherwise::Complete(answer) => match claim.record(answer.clone()).await {
                Recorded::Lost => None,
                Recorded::Unrecorded(error) => Some((EventKind::Unrecorded, error)),
                recorded => match claim.committed().await {
                    // the transaction was open still, and faster
                    Ok(Some(stored)) if stored != answer => {
                        return claim.end_committed(stored);
                    }
                    _ => {
                        claim.tell(&recorded);
                        return Joined::Completed(recorded);
                    }
                },
            },
        };
        if let Some((event, error)) = failed {
            claim.settle(event);
            return Joined::Unknown(error);
        }
        match claim.committed().await {
            Ok(Some(answer)) => claim.end_committed(answer),
            Ok(None) => {
                claim.tell(&Recorded::Lost);
                Joined::Lost
            }
            Err(error) => {
                claim.settle(EventKind::Unrecorded);
                Joined::Unknown(error)
            }
        }
    }
}

impl Claim {
    /// The answer that this very attempt has been completed with. None: it has not.
    async fn committed(&self) -> Result<Option<Answer>, StoreError> {
        let held = &self.held;
        let until = held.lease_state.deadline();
        let call = self.call(Operation::Lookup, until, StoreError::is_transient);
        let looked = call.run(|| held.shared.store().lookup(&held.key)).await?;
        let own = looked
            .answer
            .filter(|record| record.token == held.token && record.attempt == held.attempt);
        Ok(match own.map(|record| record.state) {
            Some(State::Completed { response, .. }) => Answer::from_stored(response).ok(),
            _ => None,
        })
    }

    fn end_committed(mut self: Box<Self>, answer: Answer) -> Joined {
        let kind = if answer.is_not_kept() { EventKind::NotKept } else { EventKind::Completed };
        self.settle(kind);
        Joined::Committed(answer)
    }
}
