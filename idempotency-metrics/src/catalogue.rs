//! All metrics there are. What is described, registered and documented comes from here.

use metrics::Unit;

/// One metric, as an exporter shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, by the conventions of Prometheus.
    pub name: &'static str,
    /// What kind it is.
    pub kind: MetricKind,
    /// What it counts in.
    pub unit: Unit,
    /// What it says.
    pub help: &'static str,
    /// Its labels. Each has few values, whatever clients send.
    pub labels: &'static [&'static str],
}

/// What kind of metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Values, sorted into buckets by an exporter that is told these upper bounds.
    Histogram {
        /// In the metric's unit.
        buckets: &'static [f64],
    },
}

/// Of store calls: in one process tens of nanoseconds, in one network some milliseconds, up to the
/// time-out.
const CALLS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5];
/// Of what lasts as long as a request: up to the usual limit of a hold.
const HOLDS: &[f64] =
    &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0];
/// Of retries: from at once to a month, with the usual retentions as bounds.
const AGES: &[f64] =
    &[0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0, 2_592_000.0];

const SOURCE: &[&str] = &["backend", "profile"];
const OUTCOME: &[&str] = &["backend", "profile", "outcome"];

pub(crate) const REQUESTS: Metric =
    counter("idempotency_requests_total", "Requests under a key, by what they were told.", OUTCOME);
pub(crate) const TURNED_AWAY: Metric = counter(
    "idempotency_turned_away_total",
    "Requests that were refused before anything was claimed for them, by why.",
    &["backend", "profile", "reason"],
);
pub(crate) const ATTEMPTS: Metric =
    counter("idempotency_attempts_total", "Attempts that have ended, by how.", OUTCOME);
pub(crate) const LEASE_LOSSES: Metric = counter(
    "idempotency_lease_losses_total",
    "Attempts that no longer held their key while they ran: another one may have run beside them.",
    SOURCE,
);
pub(crate) const HOLD_LIMITS: Metric = counter(
    "idempotency_hold_limits_total",
    "Attempts that ran longer than the hold limit, so that their lease was no longer renewed.",
    SOURCE,
);
pub(crate) const ABANDONED: Metric = counter(
    "idempotency_abandoned_total",
    "Requests that met an attempt whose outcome is unknown, where taking over is refused.",
    SOURCE,
);
pub(crate) const RECOVERED: Metric = counter(
    "idempotency_recovered_total",
    "Abandoned attempts whose outcome the recovery hook found out.",
    SOURCE,
);
pub(crate) const STORE_ERRORS: Metric = counter(
    "idempotency_store_errors_total",
    "Tries of store operations that failed, by the kind of failure.",
    &["backend", "profile", "operation", "kind"],
);
pub(crate) const STORE_CALLS: Metric = histogram(
    "idempotency_store_call_duration_seconds",
    "How long tries of store operations took, failed ones too.",
    &["backend", "profile", "operation"],
    CALLS,
);
pub(crate) const HELD: Metric =
    gauge("idempotency_attempts_in_flight", "Attempts that run in this process.", SOURCE);
pub(crate) const HOLD_DURATION: Metric = histogram(
    "idempotency_attempt_duration_seconds",
    "How long attempts took, from the claim until the store was told how they ended.",
    SOURCE,
    HOLDS,
);
pub(crate) const WAITERS: Metric = gauge(
    "idempotency_waiters",
    "Requests that wait in this process for another attempt's answer.",
    SOURCE,
);
pub(crate) const WAIT_DURATION: Metric = histogram(
    "idempotency_wait_duration_seconds",
    "How long requests waited for another attempt's answer.",
    SOURCE,
    HOLDS,
);
pub(crate) const RETRY_AGE: Metric = histogram(
    "idempotency_retry_age_seconds",
    "Time from the first attempt to a retry that succeeded: by replay, or by executing as a later \
     attempt.",
    OUTCOME,
    AGES,
);
pub(crate) const SWEEPS: Metric =
    counter("idempotency_sweeps_total", "Batches swept, by how it went.", &["backend", "outcome"]);
pub(crate) const SWEPT: Metric = counter(
    "idempotency_swept_records_total",
    "Records that were removed after their retention.",
    &["backend"],
);
pub(crate) const SWEPT_ABANDONED: Metric = counter(
    "idempotency_swept_abandoned_records_total",
    "Records that were removed while their outcome was unknown: nobody had settled them.",
    &["backend"],
);
pub(crate) const SWEEP_BACKLOG: Metric = gauge(
    "idempotency_sweep_backlog",
    "1 when the last batch left expired records behind, else 0.",
    &["backend"],
);

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[
    REQUESTS,
    TURNED_AWAY,
    ATTEMPTS,
    LEASE_LOSSES,
    HOLD_LIMITS,
    ABANDONED,
    RECOVERED,
    STORE_ERRORS,
    STORE_CALLS,
    HELD,
    HOLD_DURATION,
    WAITERS,
    WAIT_DURATION,
    RETRY_AGE,
    SWEEPS,
    SWEPT,
    SWEPT_ABANDONED,
    SWEEP_BACKLOG,
];

const fn counter(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
) -> Metric {
    Metric { name, kind: MetricKind::Counter, unit: Unit::Count, help, labels }
}

const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, kind: MetricKind::Gauge, unit: Unit::Count, help, labels }
}

const fn histogram(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    buckets: &'static [f64],
) -> Metric {
    Metric { name, kind: MetricKind::Histogram { buckets }, unit: Unit::Seconds, help, labels }
}
