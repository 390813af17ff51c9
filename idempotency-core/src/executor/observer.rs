use std::{fmt::Debug, sync::Arc};

use super::{Event, EventKind, Measurement, Source};
use crate::attempt_number::AttemptNumber;

/// Hears what the executor does. Called in the middle of it: be quick, never block, never panic.
///
/// Two observers in a tuple are one that tells both, and an `Arc` of an observer is one.
pub trait Observer: Debug + Send + Sync {
    /// Something happened.
    fn observe(&self, event: &Event<'_>);

    /// Whether it wants measurements. Asked once, when it is set. Without anybody who wants them the
    /// executor does not look at the clock for them.
    fn measures(&self) -> bool {
        false
    }

    /// Something was measured. Called only where [`measures`](Self::measures) says so.
    fn measure(&self, _source: Source, _measurement: Measurement) {}
}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn observe(&self, event: &Event<'_>) {
        (**self).observe(event);
    }

    fn measures(&self) -> bool {
        (**self).measures()
    }

    fn measure(&self, source: Source, measurement: Measurement) {
        (**self).measure(source, measurement);
    }
}

/// Tells both, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn observe(&self, event: &Event<'_>) {
        self.0.observe(event);
        self.1.observe(event);
    }

    fn measures(&self) -> bool {
        self.0.measures() || self.1.measures()
    }

    fn measure(&self, source: Source, measurement: Measurement) {
        if self.0.measures() {
            self.0.measure(source, measurement);
        }
        if self.1.measures() {
            self.1.measure(source, measurement);
        }
    }
}

/// The observer unless another one is set: writes each event to `tracing`.
///
/// What may lead to a second execution, or asks for an operator, is a warning; all else is debug.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn observe(&self, event: &Event<'_>) {
        let Event { kind, attempt, first_attempt_ago, .. } = event;
        let attempt = attempt.map(AttemptNumber::get);
        match kind {
            EventKind::Abandoned
            | EventKind::Restored
            | EventKind::Lost
            | EventKind::Unrecorded
            | EventKind::ReleaseFailed(_)
            | EventKind::HoldLimitReached
            | EventKind::RanUnprotected
            | EventKind::StoreFailed(..) => {
                let key = event.key_digest();
                tracing::warn!(?kind, %key, attempt, ?first_attempt_ago, "idempotency");
            }
            // the digest is only computed for a line that somebody wants
            _ => tracing::debug!(
                ?kind, key = %event.key_digest(), attempt, ?first_attempt_ago, "idempotency"
            ),
        }
    }
}
