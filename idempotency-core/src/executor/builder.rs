use std::{sync::Arc, time::Duration};

use super::{
    Codec, ConfigError, Idempotency, Observer, OnDuplicate, OnStoreFailure, Recovery, ResultPolicy,
    settings::Settings, shared::Shared,
};
use crate::{
    store::Takeover,
    time::{Clock, Lease, Retention},
};

/// Builds an [`Idempotency`] with other settings than the defaults.
///
/// ```
/// # use std::time::Duration;
/// # use idempotency_core::{Idempotency, IdempotencyStore, Lease, Retention, OnDuplicate};
/// # fn example(store: impl IdempotencyStore + 'static) -> Result<(), Box<dyn std::error::Error>> {
/// let payouts = Idempotency::builder(store)
///     .lease(Lease::new(Duration::from_secs(60))?)
///     .retention(Retention::new(Duration::from_hours(30 * 24))?)
///     .on_duplicate(OnDuplicate::Wait { timeout: Duration::from_secs(5) })
///     .build()?;
/// // the same store, another retention
/// let refunds = payouts.to_builder().retention(Retention::DEFAULT).build()?;
/// # let _ = refunds;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an executor is made by `build`"]
pub struct IdempotencyBuilder {
    pub(super) shared: Shared,
    pub(super) settings: Settings,
    /// Whether these follow from the lease.
    pub(super) derived: Derived,
}

/// Settings that follow from the lease until they are set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Derived {
    pub(super) heartbeat: bool,
    pub(super) store_timeout: bool,
    pub(super) max_hold: bool,
}

impl IdempotencyBuilder {
    /// How long a claim holds without renewal. Default 30 s.
    ///
    /// At least three times the longest time the work may block its thread: the heartbeat is a task
    /// beside it.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How long an answer is replayed, from completion. Default 24 h.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.settings.retention = retention;
        self
    }

    /// How often the lease is renewed. Default a third of the lease; at most half of it.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.settings.heartbeat = every;
        self.derived.heartbeat = false;
        self
    }

    /// How long the lease is renewed at most, so that work that hangs does not hold its key for
    /// ever. Default 15 min, or the lease if that is longer.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.settings.max_hold = limit;
        self.derived.max_hold = false;
        self
    }

    /// How long one try of a store operation may take. Default 2 s, or a quarter of the lease if
    /// that is shorter; at most half of the lease.
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.settings.store_timeout = timeout;
        self.derived.store_timeout = false;
        self
    }

    /// How long a claim or a release is tried again when the store fails. Default 5 s. Completions
    /// are tried until the lease ends.
    pub fn store_deadline(mut self, deadline: Duration) -> Self {
        self.settings.store_deadline = deadline;
        self
    }

    /// What to do while another attempt is running. Default: reject.
    pub fn on_duplicate(mut self, on_duplicate: OnDuplicate) -> Self {
        self.settings.on_duplicate = on_duplicate;
        self
    }

    /// What to do when the store cannot answer. Default: do not run.
    pub fn on_store_failure(mut self, on_store_failure: OnStoreFailure) -> Self {
        self.settings.on_store_failure = on_store_failure;
        self
    }

    /// Never execute again by itself after an attempt whose outcome is unknown: the operation then
    /// ends in `Unknown` until the outcome is settled.
    pub fn refuse_takeover(mut self) -> Self {
        self.settings.takeover = Takeover::Refuse;
        self
    }

    /// Refuses takeover and asks `recovery` what became of the attempt.
    pub fn recovery(mut self, recovery: impl Recovery + 'static) -> Self {
        self.settings.recovery = Some(Arc::new(recovery));
        self.refuse_takeover()
    }

    /// Which results are final. Default: [`ResultPolicy::Transient`].
    pub fn result_policy(mut self, policy: ResultPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// How `run` writes values. Default: JSON.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.settings.codec = codec;
        self
    }

    /// Who hears what happens. Default: [`TracingObserver`](super::TracingObserver).
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.shared = self.shared.with_observer(Arc::new(observer));
        self
    }

    /// One more who hears what happens, beside those that are set.
    pub fn add_observer(mut self, observer: impl Observer + 'static) -> Self {
        let both = (self.shared.observer(), observer);
        self.shared = self.shared.with_observer(Arc::new(both));
        self
    }

    /// A short name for what this executor is for, told with its events: a kind of operation, the
    /// profile of an HTTP API. One of few, because it becomes a label of metrics. Default: none; an HTTP
    /// layer then gives the name of its profile.
    pub fn label(mut self, label: &'static str) -> Self {
        self.shared.label = label;
        self
    }

    /// The clock. Default: the system's.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.shared = self.shared.with_clock(Arc::new(clock));
        self
    }

    /// The executor.
    ///
    /// # Errors
    /// Settings that cannot work together; the error names the setting and the rule.
    pub fn build(mut self) -> Result<Idempotency, ConfigError> {
        let lease = self.settings.lease.get();
        if self.derived.heartbeat {
            self.settings.heartbeat = lease / 3;
        }
        if self.derived.store_timeout {
            self.settings.store_timeout = Duration::from_secs(2).min(lease / 4);
        }
        if self.derived.max_hold {
            self.settings.max_hold = Duration::from_mins(15).max(lease);
        }
        self.settings.check()?;
        Ok(Idempotency::from_parts(self.shared, self.settings, self.derived))
    }
}
