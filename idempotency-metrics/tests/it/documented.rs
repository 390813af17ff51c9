//! The page that users read is true.

use idempotency_metrics::{METRICS, MetricKind, metrics::Unit};

use crate::support::Recorded;

const README: &str = include_str!("../../README.md");

#[test]
fn the_readme_lists_every_metric_as_it_is() {
    let rows: Vec<_> = README.lines().filter(|line| line.starts_with("| `idempotency_")).collect();
    let expected: Vec<_> = METRICS
        .iter()
        .map(|metric| {
            let kind = match metric.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram { .. } => "histogram",
            };
            let own = metric.labels.iter().filter(|label| !["backend", "profile"].contains(label));
            let own: Vec<_> = own.map(|label| format!("`{label}`")).collect();
            let labels =
                if own.is_empty() { String::new() } else { format!("{} ", own.join(", ")) };
            format!("| `{}` | {kind} | {labels}| {} |", metric.name, metric.help)
        })
        .collect();
    assert_eq!(rows, expected);
}

/// Names say kind and unit, as Prometheus wants them.
#[test]
fn names_follow_the_conventions() {
    for metric in METRICS {
        let name = metric.name;
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
        assert_eq!(name.ends_with("_seconds"), metric.unit == Unit::Seconds, "{name}");
        if let MetricKind::Histogram { buckets } = metric.kind {
            assert!(buckets.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
        }
    }
}

/// What is emitted is what is listed: names, labels, unit and help.
#[test]
fn every_series_is_listed_and_described() {
    use idempotency_core::{BeginOutcome, Measurement, Observer};
    use idempotency_memory::MemoryStore;
    let recorded = Recorded::new();
    let _metered = recorded.observer.meter(MemoryStore::new().connected());
    let elapsed = std::time::Duration::ZERO;
    let begun = Measurement::Begun { outcome: BeginOutcome::First, elapsed };
    recorded.observer.measure(crate::support::SOURCE, begun);
    let mut seen = Vec::new();
    for (key, unit, help, _) in recorded.snapshot() {
        let name = key.key().name();
        let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
        let labels: Vec<_> = key.key().labels().map(|label| label.key().to_owned()).collect();
        assert_eq!(labels, metric.labels, "{name}");
        assert_eq!((unit, help.as_deref()), (Some(metric.unit), Some(metric.help)), "{name}");
        seen.push(metric.name);
    }
    for metric in METRICS {
        assert!(seen.contains(&metric.name), "{} is never emitted", metric.name);
    }
}
