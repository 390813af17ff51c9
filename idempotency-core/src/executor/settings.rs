use std::{sync::Arc, time::Duration};

use super::{Codec, ConfigError, Recovery, ResultPolicy};
use crate::{
    store::Takeover,
    time::{Lease, Retention},
};

/// What to do while another attempt is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDuplicate {
    /// Say so at once.
    #[default]
    Reject,
    /// Wait for its answer, and take over when it fails.
    Wait {
        /// At most this long.
        timeout: Duration,
    },
}

/// What to do when the store cannot answer a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// Do not run.
    #[default]
    FailClosed,
    /// Run without protection: a retry may run again. Unreadable records and wrong requests are
    /// refused all the same.
    FailOpen,
}

/// All settings of an executor, checked against each other.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) lease: Lease,
    pub(super) retention: Retention,
    pub(super) heartbeat: Duration,
    pub(super) max_hold: Duration,
    pub(super) store_timeout: Duration,
    pub(super) store_deadline: Duration,
    pub(super) on_duplicate: OnDuplicate,
    pub(super) on_store_failure: OnStoreFailure,
    pub(super) takeover: Takeover,
    pub(super) recovery: Option<Arc<dyn Recovery>>,
    pub(super) policy: ResultPolicy,
    pub(super) codec: Codec,
}

impl Default for Settings {
    fn default() -> Self {
        let lease = Lease::DEFAULT;
        Self {
            lease,
            retention: Retention::DEFAULT,
            heartbeat: lease.get() / 3,
            max_hold: Duration::from_mins(15),
            store_timeout: Duration::from_secs(2),
            store_deadline: Duration::from_secs(5),
            on_duplicate: OnDuplicate::default(),
            on_store_failure: OnStoreFailure::default(),
            takeover: Takeover::Allow,
            recovery: None,
            policy: ResultPolicy::default(),
            codec: Codec::default(),
        }
    }
}

impl Settings {
    /// Refuses what cannot work together.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let lease = self.lease.get();
        let rules = [
            (
                "heartbeat",
                self.heartbeat,
                !self.heartbeat.is_zero() && self.heartbeat <= lease / 2,
                format!(
                    "a lease of {lease:?} needs a heartbeat of more than zero and at most half of it"
                ),
            ),
            (
                "store_timeout",
                self.store_timeout,
                !self.store_timeout.is_zero() && self.store_timeout <= lease / 2,
                format!(
                    "a lease of {lease:?} leaves room for tries of more than zero and at most half of it"
                ),
            ),
            (
                "store_deadline",
                self.store_deadline,
                self.store_deadline >= self.store_timeout,
                format!(
                    "one try may take {:?}, and all tries together at least that",
                    self.store_timeout
                ),
            ),
            (
                "max_hold",
                self.max_hold,
                self.max_hold >= lease,
                format!("the first lease alone is {lease:?}"),
            ),
            (
                "retention",
                self.retention.get(),
                self.retention.get() >= lease,
                format!(
                    "a retry may come as late as a lease of {lease:?}, and must find the answer"
                ),
            ),
        ];
        match rules.into_iter().find(|(_, _, fits, _)| !fits) {
            Some((setting, value, _, rule)) => Err(ConfigError { setting, value, rule }),
            None => Ok(()),
        }
    }
}
