use std::{num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use idempotency_core::{Operation, StoreError, Sweep, SweepReport};
use sqlx::Row;
use tokio::{task::JoinHandle, time};

use crate::{PostgresStore, error};

/// Records of all namespaces of the table. Each batch is a transaction of its own.
#[async_trait]
impl Sweep for PostgresStore {
    async fn sweep(&self, batch: NonZeroU32) -> Result<SweepReport, StoreError> {
        let query = || sqlx::query(self.inner.statements.sweep.safe()).bind(i64::from(batch.get()));
        let row = self.inner.caller.row(Operation::Sweep, query).await?;
        let failed = |source| error::classify(Operation::Sweep, source);
        let count = |column| -> Result<u64, StoreError> {
            let count: i64 = row.try_get(column).map_err(failed)?;
            Ok(u64::try_from(count).unwrap_or_default())
        };
        let more = row.try_get(2).map_err(failed)?;
        Ok(SweepReport { removed: count(0)?, abandoned: count(1)?, more })
    }
}

/// A task that sweeps in the background. Ends when it is dropped.
#[derive(Debug)]
pub struct Sweeper(JoinHandle<()>);

/// Some milliseconds of work for the server.
const BATCH: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

impl PostgresStore {
    /// Sweeps now and then every `pause`, in batches of 1 000, until the table holds nothing that is
    /// past its retention. Any number of processes can do this at once.
    ///
    /// Needs a tokio runtime. A sweep that fails is written to `tracing` and tried again after the next
    /// pause.
    pub fn sweep_every(&self, pause: Duration) -> Sweeper {
        let store = self.clone();
        Sweeper(tokio::spawn(async move {
            loop {
                match store.sweep(BATCH).await {
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
