use std::fmt::Debug;

use async_trait::async_trait;

use super::StoreError;

/// Looks for settings of a server that would break the contract.
#[async_trait]
pub trait Doctor: Debug + Send + Sync {
    /// What was looked at and found, the serious first.
    ///
    /// # Errors
    /// The store could not answer.
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How serious it is.
    pub severity: Severity,
    /// What was looked at, and its value: `maxmemory-policy is allkeys-lru`.
    pub subject: String,
    /// What follows from it, and what to do.
    pub advice: String,
}

/// How serious a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Weakens a promise.
    Warning,
    /// Breaks the contract.
    Hazard,
}
