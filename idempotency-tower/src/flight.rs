use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use crate::refusal::Refusal;

/// The requests with a key that are under way: at most so many, and all of them waited for before the
/// process ends.
#[derive(Debug)]
pub(crate) struct Flight {
    permits: Arc<Semaphore>,
    tracker: TaskTracker,
    draining: CancellationToken,
}

/// One request under way.
#[derive(Debug)]
pub(crate) struct Ticket {
    _permit: OwnedSemaphorePermit,
    _token: TaskTrackerToken,
}

impl Flight {
    pub(crate) fn new(max_in_flight: usize) -> Self {
        let permits = Semaphore::new(max_in_flight.min(Semaphore::MAX_PERMITS));
        Self {
            permits: Arc::new(permits),
            tracker: TaskTracker::new(),
            draining: CancellationToken::new(),
        }
    }

    pub(crate) fn board(&self) -> Result<Ticket, Refusal> {
        // the token comes first: a drain that has not seen it has set the flag before this looks
        let token = self.tracker.token();
        if self.draining.is_cancelled() {
            return Err(Refusal::ShuttingDown);
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        Ok(Ticket { _permit: permit.map_err(|_| Refusal::Overloaded)?, _token: token })
    }

    pub(crate) async fn drain(&self) {
        self.draining.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Ends when nothing new may begin.
    pub(crate) async fn is_draining(&self) {
        self.draining.cancelled().await;
    }

    pub(crate) fn len(&self) -> usize {
        self.tracker.len()
    }
}
