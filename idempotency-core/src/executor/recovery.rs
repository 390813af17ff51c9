use std::fmt::Debug;

use async_trait::async_trait;

use super::Answer;
use crate::{fingerprint::Fingerprint, key::IdempotencyKey, store::Abandoned};

/// Finds out what became of an attempt that nobody finished, where taking over is refused: by asking
/// the provider, or by looking into the ledger.
#[async_trait]
pub trait Recovery: Debug + Send + Sync {
    /// What became of the attempt.
    ///
    /// May be asked twice for one key: again, while the key is held, when another attempt came in
    /// between (C63).
    async fn recover(&self, question: Question<'_>) -> Verdict;
}

/// Which attempt a [`Recovery`] is asked about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Question<'a> {
    /// The key.
    pub key: &'a IdempotencyKey,
    /// Of the request that the key stands for.
    pub fingerprint: Fingerprint,
    /// The attempt, and what it left.
    pub abandoned: &'a Abandoned,
}

/// What became of an abandoned attempt.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It happened, and this is the answer; see [`Answer::value`] and [`Answer::bytes`].
    Happened(Answer),
    /// It did not happen: run.
    NotHappened,
    /// Nobody can tell yet.
    Unknown,
}
