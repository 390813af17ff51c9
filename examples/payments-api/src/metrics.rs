//! `GET /metrics`, for Prometheus. The recorder is the service's own, so several services in one process
//! do not mix.

use std::time::Duration;

use anyhow::{Context, Result};
use axum::{Router, response::IntoResponse, routing::get};
use http::header;
use idempotency::metrics::{METRICS, MetricKind, MetricsObserver};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// What is measured, and how it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    observer: MetricsObserver,
    handle: PrometheusHandle,
}

/// How often what was measured is put into its buckets, when nobody asks for it.
const UPKEEP: Duration = Duration::from_secs(5);

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Metrics {
    /// Needs a tokio runtime; its task ends with that.
    pub(crate) fn new() -> Result<Self> {
        let mut builder = PrometheusBuilder::new();
        for metric in METRICS {
            if let MetricKind::Histogram { buckets } = metric.kind {
                let name = Matcher::Full(metric.name.to_owned());
                builder = builder.set_buckets_for_metric(name, buckets).context(metric.name)?;
            }
        }
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        tokio::spawn(keeping_up(handle.clone()));
        Ok(Self { observer: MetricsObserver::with_recorder(recorder), handle })
    }

    pub(crate) const fn observer(&self) -> &MetricsObserver {
        &self.observer
    }

    pub(crate) fn route<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        let handle = self.handle.clone();
        let show = async move || ([(header::CONTENT_TYPE, TEXT)], handle.render()).into_response();
        Router::new().route("/metrics", get(show))
    }
}

async fn keeping_up(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        handle.run_upkeep();
    }
}
