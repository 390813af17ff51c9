use std::{fmt::Debug, num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{task::JoinHandle, time};

use super::StoreError;

/// Removes what is past its retention, for stores that do not do it by themselves.
#[async_trait]
pub trait Sweep: Debug + Send + Sync {
    /// Removes at most `batch` records past their retention, and nothing else (C55). Runs beside live
    /// traffic and beside other sweepers; progress is kept when it is cancelled.
    ///
    /// # Errors
    /// The store could not answer; some of the batch may have been removed.
    async fn sweep(&self, batch: NonZeroU32) -> Result<SweepReport, StoreError>;
}

/// What one sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "`more` tells to sweep again; `abandoned` counts outcomes nobody will know any more"]
pub struct SweepReport {
    /// Records removed.
    pub removed: u64,
    /// Of these, how many were abandoned: their outcome was never settled.
    pub abandoned: u64,
    /// Whether expired records are left.
    pub more: bool,
}

/// A task that sweeps in the background. Ends when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it sweeps no more"]
pub struct Sweeper(JoinHandle<()>);

/// Some milliseconds of work for a server.
const BATCH: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

impl Sweeper {
    /// Sweeps now and then every `pause`, in batches of 1 000, until the store holds nothing that is
    /// past its retention. Any number of processes can do this at once.
    ///
    /// Needs a tokio runtime. A sweep that fails is written to `tracing` and tried again after the next
    /// pause.
    pub fn start(sweep: Arc<dyn Sweep>, pause: Duration) -> Self {
        Self(tokio::spawn(async move {
            loop {
                match sweep.sweep(BATCH).await {
                    Ok(report) => {
                        if report.abandoned > 0 {
                            tracing::warn!(
                                abandoned = report.abandoned,
                                "idempotency: records left whose outcome nobody settled"
                            );
                        }
                        if report.more {
                            // room for live traffic
                            tokio::task::yield_now().await;
                            continue;
                        }
                    }
                    Err(error) => tracing::warn!(%error, "idempotency: sweeping failed"),
                }
                time::sleep(pause).await;
            }
        }))
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
