//! The money that moved.

mod memory;
mod postgres;

use std::fmt;

use async_trait::async_trait;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use idempotency::{StoreError, tower::CurrentAttempt};
use serde::Serialize;

pub(crate) use self::{memory::MemoryLedger, postgres::PostgresLedger};
use crate::{charge::Kind, problem, webhooks::Event};

/// One effect that really happened.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Effect {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    #[serde(skip)]
    pub(crate) account: String,
    pub(crate) customer: String,
    pub(crate) amount: u64,
    pub(crate) currency: String,
    /// None: the request had no key.
    pub(crate) attempt: Option<u64>,
    pub(crate) key_digest: Option<String>,
}

/// Effects, line by line. It never removes duplicates: a line too many is a charge too many.
#[async_trait]
pub(crate) trait Ledger: fmt::Debug + Send + Sync {
    /// Writes an effect down, and puts the event that tells of it into the outbox: both or neither.
    async fn write(
        &self,
        effect: &Effect,
        event: Option<Event>,
    ) -> Result<Box<dyn Entry>, LedgerError>;

    /// All of them, the first one first.
    async fn effects(&self) -> Result<Vec<Effect>, LedgerError>;
}

/// An effect that is written down, before its answer is given. Dropped, a ledger in a database forgets it,
/// and its event.
#[async_trait]
pub(crate) trait Entry: Send {
    /// Makes it last, and the answer with it where both are in one database. What is returned goes to the
    /// client.
    async fn commit(
        self: Box<Self>,
        attempt: Option<&CurrentAttempt>,
        response: Response,
    ) -> Result<Response, LedgerError>;
}

/// Why there is no entry.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LedgerError {
    /// The database refused, or did not answer. An entry that was to be committed may be there: the
    /// idempotency layer looks.
    #[error("the ledger does not answer: {0}")]
    Database(#[from] idempotency::sqlx::Error),
    #[error("the ledger does not answer: {0}")]
    Store(#[from] StoreError),
    /// The database may have done what it was asked.
    #[error("the ledger does not answer in time")]
    Late(#[from] tokio::time::error::Elapsed),
    /// Another attempt has the key, and nothing of this one stays.
    #[error("another attempt has taken the key over")]
    Lost,
}

impl LedgerError {
    /// For the log: the errors of the driver may quote what was sent.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Database(_) => "the database failed".to_owned(),
            Self::Store(_) | Self::Late(_) | Self::Lost => self.to_string(),
        }
    }
}

impl IntoResponse for LedgerError {
    fn into_response(self) -> Response {
        tracing::warn!("{}", self.told());
        let detail =
            "The ledger cannot be written at the moment. Repeat the request under the same key.";
        let refused = problem::new(StatusCode::SERVICE_UNAVAILABLE, "ledger-unavailable", detail);
        ([(header::RETRY_AFTER, "1")], refused).into_response()
    }
}
