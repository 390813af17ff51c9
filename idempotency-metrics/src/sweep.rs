use std::{num::NonZeroU32, sync::Arc};

use async_trait::async_trait;
use idempotency_core::{StoreError, Sweep, SweepReport};
use metrics::{Counter, Gauge};

use crate::{
    catalogue as all,
    labels::{SWEPT_ERROR, SWEPT_OK},
    recording::Recording,
};

/// Sweeps, and counts what was swept.
#[derive(Debug)]
pub(crate) struct MeteredSweep {
    inner: Arc<dyn Sweep>,
    swept: Counter,
    failed: Counter,
    removed: Counter,
    abandoned: Counter,
    backlog: Gauge,
}

impl MeteredSweep {
    pub(crate) fn new(inner: Arc<dyn Sweep>, to: &Recording, backend: &'static str) -> Self {
        let source = || vec![("backend", backend)];
        let sweeps =
            |outcome| to.counter(all::SWEEPS, vec![("backend", backend), ("outcome", outcome)]);
        Self {
            inner,
            swept: sweeps(SWEPT_OK),
            failed: sweeps(SWEPT_ERROR),
            removed: to.counter(all::SWEPT, source()),
            abandoned: to.counter(all::SWEPT_ABANDONED, source()),
            backlog: to.gauge(all::SWEEP_BACKLOG, source()),
        }
    }
}

#[async_trait]
impl Sweep for MeteredSweep {
    async fn sweep(&self, batch: NonZeroU32) -> Result<SweepReport, StoreError> {
        let report = self.inner.sweep(batch).await;
        match &report {
            Ok(report) => {
                self.swept.increment(1);
                self.removed.increment(report.removed);
                self.abandoned.increment(report.abandoned);
                self.backlog.set(f64::from(u8::from(report.more)));
            }
            Err(_) => self.failed.increment(1),
        }
        report
    }
}
