use std::time::Duration;

use bytes::Bytes;

use super::{ErrorKind, Operation, StoreError};

/// What a store promises beyond the contract, and where its limits are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreProfile {
    /// The kind of store, for logs and reports: `memory`, `redis`, …
    pub name: &'static str,
    /// The longest response, in bytes.
    pub max_response_bytes: usize,
    /// The longest checkpoint, in bytes.
    pub max_checkpoint_bytes: usize,
    /// The smallest step of its clock: a deadline may come this much late.
    pub time_step: Duration,
    /// The largest difference between two clocks that decide; zero where one clock decides (C33).
    /// Takeover and expiry come this much late.
    pub skew_bound: Duration,
    /// Whether a late claim of a token that was released as not started is refused (C29).
    pub remembers_not_started: bool,
    /// Whether expired records leave by themselves, so that sweeping is not needed.
    pub expires_by_itself: bool,
    /// Who meets in this store.
    pub sharing: Sharing,
    /// What acknowledged records survive.
    pub survives: Survives,
}

/// Who meets in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Clones of one value in one process. Other processes have records of their own.
    Process,
    /// Everybody who connects to the same server and namespace.
    Server,
}

/// What acknowledged records survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Survives {
    /// Nothing: the records end with the process.
    Nothing,
    /// A crash of the client, not the loss of the server's memory or an asynchronous failover.
    ClientCrash,
    /// A crash of the server too.
    ServerCrash,
}

impl StoreProfile {
    /// A profile of one clock with a step of a millisecond, 1 MiB responses, 64 KiB checkpoints and
    /// the most careful promises.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            max_response_bytes: 1 << 20,
            max_checkpoint_bytes: 1 << 16,
            time_step: Duration::from_millis(1),
            skew_bound: Duration::ZERO,
            remembers_not_started: false,
            expires_by_itself: false,
            sharing: Sharing::Process,
            survives: Survives::Nothing,
        }
    }

    /// Refuses a response that is too large, before anything is written (C40).
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] without effect.
    pub fn check_response(&self, response: &Bytes) -> Result<(), StoreError> {
        Self::check(Operation::Complete, "response", response.len(), self.max_response_bytes)
    }

    /// Refuses a checkpoint that is too large, before anything is written (C41).
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] without effect.
    pub fn check_checkpoint(&self, checkpoint: Option<&Bytes>) -> Result<(), StoreError> {
        let length = checkpoint.map_or(0, Bytes::len);
        Self::check(Operation::Renew, "checkpoint", length, self.max_checkpoint_bytes)
    }

    fn check(
        operation: Operation,
        what: &str,
        length: usize,
        limit: usize,
    ) -> Result<(), StoreError> {
        if length <= limit {
            return Ok(());
        }
        let detail = format!("a {what} of {length} bytes, this store takes up to {limit}");
        Err(StoreError::new(operation, ErrorKind::TooLarge, detail).without_effect())
    }
}
