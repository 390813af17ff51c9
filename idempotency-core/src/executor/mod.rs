//! The executor: claims, keeps the claim alive, runs the work once and stores its answer.

mod answer;
mod attempt;
mod begin;
mod builder;
mod call;
mod codec;
mod detached;
mod error;
mod event;
mod guard;
mod heartbeat;
mod held;
mod joining;
mod measurement;
mod observer;
mod outcome;
mod pacer;
mod policy;
mod pulse;
mod recovering;
mod recovery;
mod run;
mod settings;
mod shared;
mod waiters;

use std::{sync::Arc, time::Duration};

use tracing::{Instrument, Span, field};

pub use answer::{Answer, AnswerBody, AnswerError, NotKeptReason};
pub use attempt::Attempt;
pub use builder::IdempotencyBuilder;
pub use codec::{Codec, CodecError};
pub use detached::DetachedClaim;
pub use error::{CheckpointError, ConfigError, Error};
pub use event::{Event, EventKind, Source};
pub use guard::ClaimGuard;
pub use joining::{Joined, Otherwise};
pub use measurement::{BeginOutcome, Measurement, TurnedAway};
pub use observer::{Observer, TracingObserver};
pub use outcome::{Begun, NotKept, Outcome, Recorded, Replayed};
pub use policy::{Classify, Disposition, Never, ResultPolicy};
pub use recovery::{Question, Recovery, Verdict};
pub use settings::{OnDuplicate, OnStoreFailure};

use self::{begin::Beginning, builder::Derived, settings::Settings, shared::Shared};
use crate::{
    fingerprint::Fingerprint,
    key::{IdempotencyKey, ShownDigest},
    store::{Connected, IdempotencyStore, SeenClaim, SettleOutcome, Settlement, Takeover},
    time::{Clock, Retention},
};

/// Runs operations once per key.
///
/// Cheap to clone; clones share the store and the waiters. Needs a tokio runtime with time enabled:
/// the heartbeat of a claim is a task of its own.
#[derive(Clone, Debug)]
pub struct Idempotency {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    derived: Derived,
}

impl Idempotency {
    /// An executor over `store` with safe settings: lease 30 s, retention 24 h, duplicates are
    /// rejected while the first is running, no execution without the store.
    pub fn new(store: impl Into<Connected>) -> Self {
        let derived = Derived { heartbeat: true, store_timeout: true, max_hold: true };
        Self::from_parts(Shared::new(store.into()), Settings::default(), derived)
    }

    /// An executor with other settings.
    pub fn builder(store: impl Into<Connected>) -> IdempotencyBuilder {
        Self::new(store).to_builder()
    }

    /// Another executor over the same store, with these settings to start from: another retention
    /// for another kind of operation. Waiters stay shared.
    pub fn to_builder(&self) -> IdempotencyBuilder {
        IdempotencyBuilder {
            shared: Shared::clone(&self.shared),
            settings: Settings::clone(&self.settings),
            derived: self.derived,
        }
    }

    fn from_parts(shared: Shared, settings: Settings, derived: Derived) -> Self {
        Self { shared: Arc::new(shared), settings: Arc::new(settings), derived }
    }

    /// Claims `key`, for work that is completed by hand.
    ///
    /// # Errors
    /// The store could not answer, or a stored answer cannot be read. Nothing may run.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the key claimed, unowned, for at most its lease; nothing runs
    /// because of it.
    pub async fn begin(
        &self,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
    ) -> Result<Begun, Error> {
        let span = tracing::debug_span!(
            "idempotency.begin",
            key = %ShownDigest(key),
            outcome = field::Empty,
            attempt = field::Empty
        );
        let since = self.shared.measuring_since();
        let begun = match Beginning::new(self, key, fingerprint) {
            Ok(beginning) => beginning.run().instrument(span.clone()).await,
            Err(error) => Err(error),
        };
        if since.is_some() || !span.is_disabled() {
            self.tell_begun(&begun, since, &span);
        }
        begun
    }

    fn tell_begun(&self, begun: &Result<Begun, Error>, since: Option<Duration>, span: &Span) {
        let outcome = BeginOutcome::of(begun);
        span.record("outcome", field::debug(outcome));
        if let Ok(Begun::Acquired(guard)) = begun {
            span.record("attempt", guard.attempt().number().get());
        }
        if let (Some(since), Some(now)) = (since, self.shared.measuring_since()) {
            let elapsed = now.saturating_sub(since);
            self.shared.measure(Measurement::Begun { outcome, elapsed });
        }
    }

    /// Tells whoever [measures](Observer::measures) that a request does not come to `begin` or `run`: what
    /// stands before them has turned it away. So it is counted beside those that come.
    pub fn turn_away(&self, reason: TurnedAway) {
        self.shared.measure(Measurement::TurnedAway { reason });
    }

    /// Declares the outcome of an abandoned attempt, after looking into it. `seen` comes from
    /// [`lookup`](crate::IdempotencyStore::lookup) or a list.
    ///
    /// # Errors
    /// The store could not answer, or has no operator's verbs.
    pub async fn settle(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
        settlement: Settle,
    ) -> Result<SettleOutcome, Error> {
        let admin = self.shared.connected.admin().ok_or(Error::NoAdmin)?;
        let settlement = match settlement {
            Settle::Happened(answer) => Settlement::Completed {
                response: answer.as_stored().clone(),
                retention: self.settings.retention,
            },
            Settle::Failed => Settlement::Failed,
            Settle::NotStarted => Settlement::NotStarted,
        };
        let outcome = admin.settle(key, seen, settlement).await?;
        self.shared.waiters.wake(key);
        Ok(outcome)
    }

    /// The store and what else it can do.
    pub fn connected(&self) -> &Connected {
        &self.shared.connected
    }

    /// The same executor with another retention, or with the lease where that is longer: a retry may
    /// come as late as the lease ends, and must find the answer.
    #[must_use]
    pub fn with_retention(mut self, retention: Retention) -> Self {
        let settings = Arc::make_mut(&mut self.settings);
        let shortest = Retention::from(settings.lease);
        settings.retention = retention.max(shortest);
        self
    }

    /// The same executor under another [label](IdempotencyBuilder::label).
    #[must_use]
    pub fn with_label(mut self, label: &'static str) -> Self {
        Arc::make_mut(&mut self.shared).label = label;
        self
    }

    /// Its [label](IdempotencyBuilder::label); empty unless it was given one.
    pub fn label(&self) -> &'static str {
        self.shared.label
    }

    /// The same executor, which does this while another attempt is running.
    #[must_use]
    pub fn with_on_duplicate(mut self, on_duplicate: OnDuplicate) -> Self {
        Arc::make_mut(&mut self.settings).on_duplicate = on_duplicate;
        self
    }

    /// The same executor, which may or may not execute after an attempt whose outcome is unknown. Where
    /// it may not, the recovery hook is asked, if there is one.
    #[must_use]
    pub fn with_takeover(mut self, takeover: Takeover) -> Self {
        Arc::make_mut(&mut self.settings).takeover = takeover;
        self
    }

    /// The same executor, which refuses takeover and asks `recovery` what became of an attempt.
    #[must_use]
    pub fn with_recovery(mut self, recovery: impl Recovery + 'static) -> Self {
        Arc::make_mut(&mut self.settings).recovery = Some(Arc::new(recovery));
        self.with_takeover(Takeover::Refuse)
    }

    /// How long an answer is replayed.
    pub fn retention(&self) -> Retention {
        self.settings.retention
    }

    /// Which results are final.
    pub fn result_policy(&self) -> ResultPolicy {
        self.settings.policy
    }

    /// Whether an attempt whose outcome is unknown may be followed by another one.
    pub fn takeover(&self) -> Takeover {
        self.settings.takeover
    }

    /// The clock by which it works.
    pub fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }
}

/// An executor with safe settings over a store, as [`Idempotency::new`] makes it.
impl<S: IdempotencyStore + 'static> From<S> for Idempotency {
    fn from(store: S) -> Self {
        Self::new(store)
    }
}

/// An executor with safe settings over a store, as [`Idempotency::new`] makes it.
impl From<Connected> for Idempotency {
    fn from(connected: Connected) -> Self {
        Self::new(connected)
    }
}

/// What an operator declares of an abandoned attempt.
#[derive(Clone, Debug)]
pub enum Settle {
    /// It happened: every retry gets this answer.
    Happened(Answer),
    /// It is known not to have happened: the next claim executes as the next attempt.
    Failed,
    /// No attempt ever began: the key is unused again.
    NotStarted,
}
