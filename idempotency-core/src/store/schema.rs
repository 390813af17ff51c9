use std::fmt::Debug;

use async_trait::async_trait;

use super::StoreError;

/// What a store must have set up before it is used: a table, an index.
#[async_trait]
pub trait Schema: Debug + Send + Sync {
    /// The statements or templates that set it up, for review and for migration tools.
    fn describe(&self) -> String;

    /// Sets it up. Changes nothing where it is there already; safe from several processes at once.
    ///
    /// # Errors
    /// The store could not answer, or refuses.
    async fn create(&self) -> Result<(), StoreError>;
}
