use std::{fmt, sync::Arc};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};

use crate::catalogue::{METRICS, Metric, MetricKind};

/// Where numbers go.
#[derive(Clone)]
pub(crate) enum Recording {
    /// The recorder that the application has installed.
    Installed,
    /// One of its own.
    Own(Arc<dyn Recorder + Send + Sync>),
}

const METADATA: Metadata<'static> = Metadata::new("idempotency", Level::INFO, Some(module_path!()));

type Labels = Vec<(&'static str, &'static str)>;

impl Recording {
    /// Tells unit and meaning of every metric.
    pub(crate) fn describe(&self) {
        for Metric { name, kind, unit, help, .. } in METRICS {
            let (name, unit, help) = ((*name).into(), Some(*unit), (*help).into());
            self.with(|recorder| match kind {
                MetricKind::Counter => recorder.describe_counter(name, unit, help),
                MetricKind::Gauge => recorder.describe_gauge(name, unit, help),
                MetricKind::Histogram { .. } => recorder.describe_histogram(name, unit, help),
            });
        }
    }

    pub(crate) fn counter(&self, metric: Metric, labels: Labels) -> Counter {
        let key = key(metric, labels);
        self.with(|recorder| recorder.register_counter(&key, &METADATA))
    }

    pub(crate) fn gauge(&self, metric: Metric, labels: Labels) -> Gauge {
        let key = key(metric, labels);
        self.with(|recorder| recorder.register_gauge(&key, &METADATA))
    }

    pub(crate) fn histogram(&self, metric: Metric, labels: Labels) -> Histogram {
        let key = key(metric, labels);
        self.with(|recorder| recorder.register_histogram(&key, &METADATA))
    }

    fn with<T>(&self, tell: impl FnOnce(&dyn Recorder) -> T) -> T {
        match self {
            Self::Installed => metrics::with_recorder(tell),
            Self::Own(recorder) => tell(&**recorder),
        }
    }
}

fn key(metric: Metric, labels: Labels) -> Key {
    let labels = labels.into_iter().map(|(name, value)| Label::from_static_parts(name, value));
    Key::from_parts(metric.name, labels.collect::<Vec<_>>())
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Installed => "Installed",
            Self::Own(_) => "Own",
        })
    }
}
