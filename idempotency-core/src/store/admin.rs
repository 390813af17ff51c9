use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use super::StoreError;
use crate::{
    attempt_number::AttemptNumber,
    key::{IdempotencyKey, KeyDigest, Scope},
    record::Record,
    time::Retention,
    token::ClaimToken,
};

/// What an operator can do with a store. Each verb names the attempt it saw and changes nothing when
/// the record has moved on since.
#[async_trait]
pub trait StoreAdmin: Debug + Send + Sync {
    /// One page of the records that match `query`, in no order; records that are written meanwhile
    /// may be missing.
    ///
    /// # Errors
    /// The store could not answer. `Invalid`: the query's page is not of this store.
    async fn list(&self, query: ListQuery) -> Result<ListPage, StoreError>;

    /// Declares the outcome of an abandoned attempt.
    ///
    /// # Errors
    /// The store could not answer.
    async fn settle(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
        settlement: Settlement,
    ) -> Result<SettleOutcome, StoreError>;

    /// Removes a record, whatever its state.
    ///
    /// # Errors
    /// The store could not answer.
    async fn remove(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
    ) -> Result<RemoveOutcome, StoreError>;
}

/// Which records to list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Only those in this state.
    pub state: Option<ListState>,
    /// Only those of this scope.
    pub scope: Option<Scope>,
    /// Only those whose first attempt is at least this old.
    pub older_than: Option<Duration>,
    /// At most this many a page; a page may hold fewer and still have a next one.
    pub limit: usize,
    /// Where the page before this one ended.
    pub page: Option<String>,
}

impl Default for ListQuery {
    /// All records, 100 a page.
    fn default() -> Self {
        Self { state: None, scope: None, older_than: None, limit: 100, page: None }
    }
}

/// A state an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListState {
    /// Held, with a live lease.
    InProgress,
    /// Held with a lease that is over, or released as unknown: the outcome is unknown.
    Abandoned,
    /// Released as failed: the next claim executes.
    Failed,
    /// Done.
    Completed,
}

/// One page of records.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// The records.
    pub records: Vec<ListedRecord>,
    /// Where the next page begins; none at the end.
    pub next: Option<String>,
}

/// A record in a list.
#[derive(Clone, Debug)]
pub struct ListedRecord {
    /// The key, where the store can tell it. None where it keeps keyed digests only.
    pub key: Option<IdempotencyKey>,
    /// Stands for the key in logs, where the key is known.
    pub digest: Option<KeyDigest>,
    /// What it stands in.
    pub state: ListState,
    /// The record.
    pub record: Record,
}

/// The attempt an operator saw before deciding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeenClaim {
    /// Its token.
    pub token: ClaimToken,
    /// Its number.
    pub attempt: AttemptNumber,
}

impl From<&Record> for SeenClaim {
    fn from(record: &Record) -> Self {
        Self { token: record.token, attempt: record.attempt }
    }
}

/// What an operator declares of an abandoned attempt.
#[derive(Clone, Debug)]
pub enum Settlement {
    /// It happened, and this is the answer for every retry.
    Completed {
        /// The stored answer.
        response: Bytes,
        /// How long it is replayed from now.
        retention: Retention,
    },
    /// It is known not to have happened: the next claim executes as the next attempt.
    Failed,
    /// No attempt ever began: the key is unused again.
    NotStarted,
}

/// The answer to settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "only `Settled` changed the record"]
pub enum SettleOutcome {
    /// The record says so now.
    Settled,
    /// The attempt is alive: its lease is not over.
    StillRunning,
    /// The record is not the one that was seen, has an outcome already, or is gone.
    Changed,
}

/// The answer to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "only `Removed` changed the record"]
pub enum RemoveOutcome {
    /// The key is unused now.
    Removed,
    /// The record is not the one that was seen, or is gone.
    Changed,
}
