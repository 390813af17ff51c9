use std::{borrow::Cow, fmt};

use crate::record::CorruptRecord;

/// A store could not answer (C50). What it answers is a value, never an error.
///
/// Shown as `claim failed: unavailable: connection refused (nothing happened)`.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed: {kind}: {detail} ({effect})")]
pub struct StoreError {
    kind: ErrorKind,
    operation: Operation,
    effect: Effect,
    detail: Cow<'static, str>,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What kind of failure a [`StoreError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached, or is not ready.
    Unavailable,
    /// No answer within the time-out.
    Timeout,
    /// The store asks to slow down.
    Throttled,
    /// Too many others changed the record at the same time.
    Conflict,
    /// No room for a new record; nothing that lives was evicted.
    Full,
    /// The response or the checkpoint is larger than the profile allows.
    TooLarge,
    /// What is kept at the record's place cannot be read (C00) or is another key's record (C35).
    Corrupt,
    /// The token was released and cannot claim again (C03, C29).
    TokenSpent,
    /// The request or the configuration is wrong.
    Invalid,
    /// The store refuses these credentials, or they may not do this.
    Denied,
    /// Anything else.
    Unexpected,
}

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Connecting to a store.
    Connect,
    /// [`claim`](super::IdempotencyStore::claim)
    Claim,
    /// [`complete`](super::IdempotencyStore::complete)
    Complete,
    /// [`renew`](super::IdempotencyStore::renew)
    Renew,
    /// [`release`](super::IdempotencyStore::release)
    Release,
    /// [`lookup`](super::IdempotencyStore::lookup)
    Lookup,
    /// [`list`](super::StoreAdmin::list)
    List,
    /// [`settle`](super::StoreAdmin::settle)
    Settle,
    /// [`remove`](super::StoreAdmin::remove)
    Remove,
    /// [`sweep`](super::Sweep::sweep)
    Sweep,
    /// [`watch`](super::Watch::watch)
    Watch,
    /// [`Schema`](super::Schema)
    Schema,
    /// [`Doctor`](super::Doctor)
    Doctor,
}

/// What a failed operation may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Effect {
    /// Nothing.
    None,
    /// It may have happened, or may still happen: a copy can arrive late.
    #[default]
    Unknown,
}

impl StoreError {
    /// An error whose effect is unknown. `detail` says what was wrong, with which value, and what to
    /// do; it must hold no key, scope, response or password.
    pub fn new(
        operation: Operation,
        kind: ErrorKind,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, operation, effect: Effect::Unknown, detail: detail.into(), source: None }
    }

    /// What is kept at the record's place cannot be read; nothing was changed.
    pub fn corrupt(operation: Operation, cause: CorruptRecord) -> Self {
        Self::new(operation, ErrorKind::Corrupt, cause.to_string())
            .without_effect()
            .with_source(cause)
    }

    /// The token was released before and cannot claim again; nothing was changed.
    pub fn token_spent() -> Self {
        let detail = "this attempt gave the key back; claim again with a new token";
        Self::new(Operation::Claim, ErrorKind::TokenSpent, detail).without_effect()
    }

    /// The same error, for a failure that is known to have changed nothing.
    #[must_use]
    pub fn without_effect(self) -> Self {
        Self { effect: Effect::None, ..self }
    }

    /// The same error, of the operation that the caller asked for.
    pub(crate) fn during(self, operation: Operation) -> Self {
        Self { operation, ..self }
    }

    /// The same error, when an earlier try of the same operation may have changed something.
    #[must_use]
    pub fn after_unknown_effect(self) -> Self {
        Self { effect: Effect::Unknown, ..self }
    }

    /// The same error with its cause.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// What kind of failure it is.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What failed.
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// What may have happened.
    pub const fn effect(&self) -> Effect {
        self.effect
    }

    /// Whether the same operation with the same arguments may succeed in a moment.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Unavailable
                | ErrorKind::Timeout
                | ErrorKind::Throttled
                | ErrorKind::Conflict
        )
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "store unavailable",
            Self::Timeout => "no answer in time",
            Self::Throttled => "throttled",
            Self::Conflict => "too much contention",
            Self::Full => "store full",
            Self::TooLarge => "too large",
            Self::Corrupt => "unreadable record",
            Self::TokenSpent => "token spent",
            Self::Invalid => "invalid",
            Self::Denied => "access denied",
            Self::Unexpected => "unexpected",
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Claim => "claim",
            Self::Complete => "complete",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Lookup => "lookup",
            Self::List => "list",
            Self::Settle => "settle",
            Self::Remove => "remove",
            Self::Sweep => "sweep",
            Self::Watch => "watch",
            Self::Schema => "schema",
            Self::Doctor => "doctor",
        })
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "nothing happened",
            Self::Unknown => "it may have happened",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_failed_why_and_what_may_have_happened() {
        let error = StoreError::new(Operation::Claim, ErrorKind::Timeout, "no reply after 2 s");
        assert_eq!(
            error.to_string(),
            "claim failed: no answer in time: no reply after 2 s (it may have happened)"
        );
        assert_eq!(error.effect(), Effect::Unknown);
        assert!(error.is_transient());
        let error = StoreError::corrupt(Operation::Lookup, CorruptRecord::Checksum);
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Corrupt, Effect::None));
        assert!(!error.is_transient());
    }
}
