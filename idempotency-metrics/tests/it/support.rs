use std::collections::BTreeMap;

use idempotency_core::{IdempotencyKey, Source};
use idempotency_metrics::MetricsObserver;
use idempotency_metrics::metrics::{SharedString, Unit};
use metrics_util::{
    CompositeKey,
    debugging::{DebugValue, DebuggingRecorder, Snapshotter},
};

pub(crate) const SOURCE: Source = Source { store: "memory", label: "ietf" };

pub(crate) fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey::new("hush-scope", name).unwrap()
}

type Seen = (CompositeKey, Option<Unit>, Option<SharedString>, DebugValue);

/// An observer, and what its recorder has heard.
pub(crate) struct Recorded {
    pub(crate) observer: MetricsObserver,
    snapshotter: Snapshotter,
}

impl Recorded {
    pub(crate) fn new() -> Self {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let observer = MetricsObserver::with_recorder(recorder);
        Self { observer, snapshotter }
    }

    /// Every series as `name{label=value,…}`, with what it got since the last look: the recorder forgets
    /// what was looked at. Of a histogram how many values it got, as `name_count{…}`, and their sum, as
    /// `name_sum{…}`.
    pub(crate) fn series(&self) -> BTreeMap<String, f64> {
        let mut series = BTreeMap::new();
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let key = key.key();
            let labels: Vec<_> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let labels = labels.join(",");
            match value {
                #[expect(clippy::cast_precision_loss, reason = "tests count to small numbers")]
                DebugValue::Counter(count) => {
                    series.insert(format!("{}{{{labels}}}", key.name()), count as f64);
                }
                DebugValue::Gauge(value) => {
                    series.insert(format!("{}{{{labels}}}", key.name()), value.0);
                }
                DebugValue::Histogram(values) => {
                    #[expect(clippy::cast_precision_loss, reason = "tests count to small numbers")]
                    series.insert(format!("{}_count{{{labels}}}", key.name()), values.len() as f64);
                    let sum = values.iter().map(|value| value.0).sum();
                    series.insert(format!("{}_sum{{{labels}}}", key.name()), sum);
                }
            }
        }
        series
    }

    pub(crate) fn snapshot(&self) -> Vec<Seen> {
        self.snapshotter.snapshot().into_vec()
    }

    /// What has moved since the last look, without what all series have in common:
    /// `requests_total{outcome=first} +1`.
    pub(crate) fn moved(&self) -> Vec<String> {
        let moved = self.series().into_iter().filter(|(_, value)| value.abs() > f64::EPSILON);
        let short = moved.map(|(name, value)| {
            let name = name
                .replace("idempotency_", "")
                .replace("backend=memory", "")
                .replace(",profile=ietf", "")
                .replace("{,", "{")
                .replace("{}", "");
            format!("{name} {value:+}")
        });
        short.collect()
    }
}
