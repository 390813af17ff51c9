#![doc = include_str!("../README.md")]

mod catalogue;
mod counters;
mod labels;
mod observer;
mod recording;
mod series;
mod sweep;

pub use catalogue::{METRICS, Metric, MetricKind};
pub use observer::MetricsObserver;

// the recorder that is handed over has to be of this very version
pub use metrics;
