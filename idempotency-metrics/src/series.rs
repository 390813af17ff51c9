use std::time::Duration;

use idempotency_core::{
    AttemptNumber, BeginOutcome, ErrorKind, Event, EventKind, Measurement, Operation, TurnedAway,
};
use metrics::{Counter, Gauge, Histogram};

use crate::{
    catalogue as all,
    counters::{Counters, position},
    labels::{
        ENDS, ERROR_KINDS, End, OPERATIONS, REQUEST_OUTCOMES, RETRY_EXECUTED, RETRY_REPLAYED,
        TURNED_AWAY_FOR,
    },
    recording::Recording,
};

/// All series of one executor: of one backend and one profile.
#[derive(Debug)]
pub(crate) struct Series {
    requests: Counters<BeginOutcome>,
    turned_away: Counters<Option<TurnedAway>>,
    attempts: Counters<End>,
    lease_losses: Counter,
    hold_limits: Counter,
    abandoned: Counter,
    recovered: Counter,
    /// In the order of `OPERATIONS`.
    store_calls: Box<[OfOperation]>,
    held: Gauge,
    hold_duration: Histogram,
    waiters: Gauge,
    wait_duration: Histogram,
    retry_replayed: Histogram,
    retry_executed: Histogram,
}

#[derive(Debug)]
struct OfOperation {
    errors: Counters<Option<ErrorKind>>,
    duration: Histogram,
}

impl Series {
    pub(crate) fn register(to: &Recording, backend: &'static str, profile: &'static str) -> Self {
        let source = || vec![("backend", backend), ("profile", profile)];
        let with = |name, value| {
            let mut labels = source();
            labels.push((name, value));
            labels
        };
        let retry_age = |way| to.histogram(all::RETRY_AGE, with("outcome", way));
        let of_operation = |(_, operation): &(_, &'static str)| OfOperation {
            errors: Counters::new(ERROR_KINDS, |kind| {
                let mut labels = with("operation", operation);
                labels.push(("kind", kind));
                to.counter(all::STORE_ERRORS, labels)
            }),
            duration: to.histogram(all::STORE_CALLS, with("operation", operation)),
        };
        Self {
            requests: Counters::new(REQUEST_OUTCOMES, |outcome| {
                to.counter(all::REQUESTS, with("outcome", outcome))
            }),
            turned_away: Counters::new(TURNED_AWAY_FOR, |reason| {
                to.counter(all::TURNED_AWAY, with("reason", reason))
            }),
            attempts: Counters::new(ENDS, |outcome| {
                to.counter(all::ATTEMPTS, with("outcome", outcome))
            }),
            lease_losses: to.counter(all::LEASE_LOSSES, source()),
            hold_limits: to.counter(all::HOLD_LIMITS, source()),
            abandoned: to.counter(all::ABANDONED, source()),
            recovered: to.counter(all::RECOVERED, source()),
            store_calls: OPERATIONS.iter().map(of_operation).collect(),
            held: to.gauge(all::HELD, source()),
            hold_duration: to.histogram(all::HOLD_DURATION, source()),
            waiters: to.gauge(all::WAITERS, source()),
            wait_duration: to.histogram(all::WAIT_DURATION, source()),
            retry_replayed: retry_age(RETRY_REPLAYED),
            retry_executed: retry_age(RETRY_EXECUTED),
        }
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        match event.kind {
            EventKind::Lost => self.lease_losses.increment(1),
            EventKind::HoldLimitReached => self.hold_limits.increment(1),
            EventKind::Abandoned => self.abandoned.increment(1),
            EventKind::Recovered => self.recovered.increment(1),
            EventKind::Replayed => record(&self.retry_replayed, event.first_attempt_ago),
            EventKind::StoreFailed(operation, kind) => {
                if let Some(of) = self.of_operation(operation) {
                    of.errors.add_one(&Some(kind));
                }
            }
            // beginnings are measured
            kind => {
                let Some(end) = End::of(kind) else { return };
                self.attempts.add_one(&end);
                if end.is_success() && event.attempt > Some(AttemptNumber::FIRST) {
                    record(&self.retry_executed, event.first_attempt_ago);
                }
            }
        }
    }

    pub(crate) fn measure(&self, measurement: Measurement) {
        match measurement {
            Measurement::Begun { outcome, .. } => self.requests.add_one(&outcome),
            Measurement::TurnedAway { reason } => self.turned_away.add_one(&Some(reason)),
            Measurement::StoreCall { operation, elapsed, .. } => {
                if let Some(of) = self.of_operation(operation) {
                    of.duration.record(elapsed);
                }
            }
            Measurement::HoldBegan => self.held.increment(1),
            Measurement::HoldEnded { elapsed } => {
                self.held.decrement(1);
                self.hold_duration.record(elapsed);
            }
            Measurement::WaitBegan => self.waiters.increment(1),
            Measurement::WaitEnded { elapsed } => {
                self.waiters.decrement(1);
                self.wait_duration.record(elapsed);
            }
            // a later core measures more than this crate shows
            _ => {}
        }
    }

    fn of_operation(&self, operation: Operation) -> Option<&OfOperation> {
        self.store_calls.get(position(OPERATIONS, &Some(operation)))
    }
}

fn record(histogram: &Histogram, time: Option<Duration>) {
    if let Some(time) = time {
        histogram.record(time);
    }
}
