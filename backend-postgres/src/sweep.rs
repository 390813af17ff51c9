use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use idempotency_core::{Operation, StoreError, Sweep, SweepReport, Sweeper};
use sqlx::Row;

use crate::{PostgresStore, error};

/// Records of all namespaces of the table. Each batch is a transaction of its own.
#[async_trait]
impl Sweep for PostgresStore {
    async fn sweep(&self, batch: NonZeroU32) -> Result<SweepReport, StoreError> {
        let query = || sqlx::query(self.inner.statements.sweep.safe()).bind(i64::from(batch.get()));
        let row = self.inner.caller.row(Operation::Sweep, &query).await?;
        let failed = |source| error::classify(Operation::Sweep, source);
        let count = |column| -> Result<u64, StoreError> {
            let count: i64 = row.try_get(column).map_err(failed)?;
            Ok(u64::try_from(count).unwrap_or_default())
        };
        let more = row.try_get(2).map_err(failed)?;
        Ok(SweepReport { removed: count(0)?, abandoned: count(1)?, more })
    }
}

impl PostgresStore {
    /// Sweeps in the background every `pause`; see [`Sweeper::start`].
    pub fn sweep_every(&self, pause: Duration) -> Sweeper {
        Sweeper::start(Arc::new(self.clone()), pause)
    }
}
