use std::{num::NonZeroU32, sync::Arc};

use async_trait::async_trait;
use idempotency_core::{Connected, ErrorKind, Operation, StoreError, Sweep, SweepReport};
use idempotency_memory::MemoryStore;

use crate::support::Recorded;

/// Answers what it is told.
#[derive(Debug)]
struct Scripted(std::sync::Mutex<Vec<Option<SweepReport>>>);

#[async_trait]
impl Sweep for Scripted {
    async fn sweep(&self, _: NonZeroU32) -> Result<SweepReport, StoreError> {
        let next = self.0.lock().unwrap().pop().unwrap();
        next.ok_or_else(|| StoreError::new(Operation::Sweep, ErrorKind::Unavailable, "told to"))
    }
}

#[tokio::test]
async fn sweeps_are_counted_and_show_what_is_left() {
    let recorded = Recorded::new();
    let report = |removed, abandoned, more| Some(SweepReport { removed, abandoned, more });
    let script = vec![report(1, 0, false), None, report(9, 2, true)];
    let connected = MemoryStore::new().connected();
    let connected = connected.with_sweep(Arc::new(Scripted(script.into())));
    let sweep = recorded.observer.meter(connected).sweep().unwrap();
    let batch = NonZeroU32::new(10).unwrap();
    let _report = sweep.sweep(batch).await.unwrap();
    assert_eq!(
        recorded.moved(),
        [
            "sweep_backlog +1",
            "sweeps_total{outcome=ok} +1",
            "swept_abandoned_records_total +2",
            "swept_records_total +9",
        ]
    );
    assert!(sweep.sweep(batch).await.is_err());
    assert_eq!(recorded.moved(), ["sweeps_total{outcome=error} +1"]);
    let _report = sweep.sweep(batch).await.unwrap();
    assert_eq!(
        recorded.moved(),
        ["sweeps_total{outcome=ok} +1", "swept_records_total +1"],
        "and the backlog is 0"
    );
}

#[test]
fn a_store_without_sweeping_stays_without() {
    let recorded = Recorded::new();
    let connected = Connected::from(MemoryStore::new());
    assert!(recorded.observer.meter(connected).sweep().is_none());
}
