use std::{fmt::Debug, num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{task::JoinHandle, time};

use super::StoreError;
use crate::time::{Clock, SystemClock};

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

/// Half a millisecond of work for a server: so long has live traffic to wait for it.
const BATCH: NonZeroU32 = NonZeroU32::new(25).unwrap();

impl Sweeper {
    /// Sweeps now and then every `pause` with [`sweep_all`](Self::sweep_all). Any number of processes can
    /// do this at once.
    ///
    /// Needs a tokio runtime. A sweep that fails is written to `tracing` and tried again after the next
    /// pause.
    pub fn start(sweep: Arc<dyn Sweep>, pause: Duration) -> Self {
        Self(tokio::spawn(async move {
            loop {
                match Self::sweep_all(&*sweep).await {
                    Ok(SweepReport { abandoned: 0, .. }) => {}
                    Ok(SweepReport { abandoned, .. }) => tracing::warn!(
                        abandoned,
                        "idempotency: records left whose outcome nobody settled"
                    ),
                    Err(error) => tracing::warn!(%error, "idempotency: sweeping failed"),
                }
                time::sleep(pause).await;
            }
        }))
    }

    /// Sweeps until the store holds nothing that is past its retention: in batches of 25, with a rest
    /// after each that is as long as the batch took. Answers all that was removed.
    ///
    /// # Errors
    /// The store could not answer; what was removed before stays removed.
    ///
    /// # Cancel safety
    /// Progress is kept.
    pub async fn sweep_all(sweep: &dyn Sweep) -> Result<SweepReport, StoreError> {
        let clock = SystemClock::new();
        let mut all = SweepReport::default();
        loop {
            let began = clock.monotonic();
            let SweepReport { removed, abandoned, more } = sweep.sweep(BATCH).await?;
            all.removed += removed;
            all.abandoned += abandoned;
            if !more {
                return Ok(all);
            }
            // half of the time is live traffic's
            clock.sleep(clock.monotonic().saturating_sub(began)).await;
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A store with three batches, each of which takes it some time.
    #[derive(Debug, Default)]
    struct Slow {
        swept: AtomicU64,
    }

    const WORK: Duration = Duration::from_millis(50);

    #[async_trait]
    impl Sweep for Slow {
        async fn sweep(&self, batch: NonZeroU32) -> Result<SweepReport, StoreError> {
            SystemClock::new().sleep(WORK).await;
            let swept = self.swept.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(SweepReport { removed: batch.get().into(), abandoned: swept, more: swept < 3 })
        }
    }

    /// Kind of fault: a sweeper that live traffic has to wait for.
    #[tokio::test]
    async fn all_is_swept_and_half_of_the_time_is_left_to_others() {
        let (slow, clock) = (Slow::default(), SystemClock::new());
        let began = clock.monotonic();
        let report = Sweeper::sweep_all(&slow).await.unwrap();
        assert_eq!(report, SweepReport { removed: 75, abandoned: 6, more: false });
        // three batches, and the rests between them
        assert!(clock.monotonic().saturating_sub(began) >= WORK * 5);
    }
}
