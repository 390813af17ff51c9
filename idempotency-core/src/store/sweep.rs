use std::{fmt::Debug, num::NonZeroU32};

use async_trait::async_trait;

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
