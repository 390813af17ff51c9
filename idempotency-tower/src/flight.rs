use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::refusal::Refusal;

/// The requests with a key that are under way: at most so many, and all of them waited for before the
/// process ends.
#[derive(Debug)]
pub(crate) struct Flight {
    permits: Arc<Semaphore>,
    tracker: TaskTracker,
    draining: AtomicBool,
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
            draining: AtomicBool::new(false),
        }
    }

    pub(crate) fn board(&self) -> Result<Ticket, Refusal> {
        // the token comes first: a drain that has not seen it has set the flag before this looks
        let token = self.tracker.token();
        if self.draining.load(Ordering::SeqCst) {
            return Err(Refusal::ShuttingDown);
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        Ok(Ticket { _permit: permit.map_err(|_| Refusal::Overloaded)?, _token: token })
    }

    pub(crate) async fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        self.tracker.close();
        self.tracker.wait().await;
    }

    pub(crate) fn len(&self) -> usize {
        self.tracker.len()
    }
}
