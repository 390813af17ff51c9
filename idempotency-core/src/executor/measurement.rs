use std::{sync::Arc, time::Duration};

use super::{Begun, Error, shared::Shared};
use crate::{
    attempt_number::AttemptNumber,
    store::{ErrorKind, Operation},
};

/// A number for whoever [measures](super::Observer::measures).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measurement {
    /// A call of `begin`, or the part of `run` before its work, has ended.
    Begun {
        /// With what.
        outcome: BeginOutcome,
        /// How long it took, waiting included.
        elapsed: Duration,
    },
    /// One try of a store operation has ended.
    StoreCall {
        /// Which operation.
        operation: Operation,
        /// None: the store answered.
        error: Option<ErrorKind>,
        /// How long it took.
        elapsed: Duration,
    },
    /// A guard was made: from here on the caller may work.
    HoldBegan,
    /// The guard is gone: completed, released or dropped.
    HoldEnded {
        /// How long it lived.
        elapsed: Duration,
    },
    /// A call begins to wait for another attempt.
    WaitBegan,
    /// It waits no longer, whatever came of it.
    WaitEnded {
        /// How long it has waited.
        elapsed: Duration,
    },
    /// A request was [turned away](super::Idempotency::turn_away) before anything was claimed for it.
    TurnedAway {
        /// Why.
        reason: TurnedAway,
    },
}

/// Why a request was turned away before anything was claimed for it, by what stands before an executor: a
/// layer for HTTP, a consumer of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TurnedAway {
    /// It names nobody whose key it could be.
    NoPrincipal,
    /// It has no key, and needs one.
    KeyMissing,
    /// Its key cannot be used.
    KeyInvalid,
    /// Its body is larger than is taken.
    BodyTooLarge,
    /// Its body did not arrive in time.
    BodyTooSlow,
    /// Its body broke off.
    BodyUnreadable,
    /// As many as are allowed were under way.
    Overloaded,
    /// The process takes no new requests.
    ShuttingDown,
}

/// What a call of `begin` came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BeginOutcome {
    /// The caller executes, as attempt 1.
    First,
    /// The caller executes, as a later attempt.
    TakenOver,
    /// The stored answer was given.
    Replayed,
    /// Another attempt is running.
    InProgress,
    /// The key stands for another request.
    Mismatch,
    /// An earlier attempt may have run, and taking over is refused.
    Unknown,
    /// The caller executes without protection.
    Unprotected,
    /// An error: nothing runs.
    Refused,
}

impl BeginOutcome {
    pub(super) fn of(begun: &Result<Begun, Error>) -> Self {
        match begun {
            Ok(Begun::Acquired(guard)) => {
                let attempt = guard.attempt();
                if !attempt.is_protected() {
                    Self::Unprotected
                } else if attempt.number() == AttemptNumber::FIRST {
                    Self::First
                } else {
                    Self::TakenOver
                }
            }
            Ok(Begun::Replayed(_)) => Self::Replayed,
            Ok(Begun::InProgress(_)) => Self::InProgress,
            Ok(Begun::Mismatch(_)) => Self::Mismatch,
            Ok(Begun::Unknown(_)) => Self::Unknown,
            Err(_) => Self::Refused,
        }
    }
}

/// What lasts for a while: told when it begins, and when it is dropped.
#[derive(Debug)]
pub(super) struct Lasting {
    shared: Arc<Shared>,
    what: Lasts,
    since: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Lasts {
    Hold,
    Wait,
}

impl Lasting {
    /// None: nobody wants to know.
    pub(super) fn hold(shared: &Arc<Shared>) -> Option<Self> {
        Self::begin(shared, Lasts::Hold)
    }

    /// None: nobody wants to know.
    pub(super) fn wait(shared: &Arc<Shared>) -> Option<Self> {
        Self::begin(shared, Lasts::Wait)
    }

    fn begin(shared: &Arc<Shared>, what: Lasts) -> Option<Self> {
        let since = shared.measuring_since()?;
        shared.measure(match what {
            Lasts::Hold => Measurement::HoldBegan,
            Lasts::Wait => Measurement::WaitBegan,
        });
        Some(Self { shared: Arc::clone(shared), what, since })
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let elapsed = self.shared.clock.monotonic().saturating_sub(self.since);
        self.shared.measure(match self.what {
            Lasts::Hold => Measurement::HoldEnded { elapsed },
            Lasts::Wait => Measurement::WaitEnded { elapsed },
        });
    }
}
