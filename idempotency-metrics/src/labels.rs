//! The values of labels.

use idempotency_core::{BeginOutcome, ErrorKind, EventKind, Operation, Release, TurnedAway};

/// What requests are told.
pub(crate) const REQUEST_OUTCOMES: &[(BeginOutcome, &str)] = &[
    (BeginOutcome::First, "first"),
    (BeginOutcome::TakenOver, "taken_over"),
    (BeginOutcome::Replayed, "replayed"),
    (BeginOutcome::InProgress, "in_progress"),
    (BeginOutcome::Mismatch, "mismatch"),
    (BeginOutcome::Unknown, "unknown"),
    (BeginOutcome::Unprotected, "unprotected"),
    (BeginOutcome::Refused, "refused"),
];

/// Why requests never come to the executor, as the problem types of the HTTP layer say it; the last one is
/// for what a later core may tell.
pub(crate) const TURNED_AWAY_FOR: &[(Option<TurnedAway>, &str)] = &[
    (Some(TurnedAway::NoPrincipal), "no_principal"),
    (Some(TurnedAway::KeyMissing), "key_missing"),
    (Some(TurnedAway::KeyInvalid), "key_invalid"),
    (Some(TurnedAway::BodyTooLarge), "body_too_large"),
    (Some(TurnedAway::BodyTooSlow), "body_too_slow"),
    (Some(TurnedAway::BodyUnreadable), "body_unreadable"),
    (Some(TurnedAway::Overloaded), "overloaded"),
    (Some(TurnedAway::ShuttingDown), "shutting_down"),
    (None, "other"),
];

/// How attempts end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    NotKept,
    Restored,
    Unrecorded,
    Failed,
    NotStarted,
    Unknown,
    ReleaseFailed,
    Dropped,
}

pub(crate) const ENDS: &[(End, &str)] = &[
    (End::Completed, "completed"),
    (End::NotKept, "not_kept"),
    (End::Restored, "restored"),
    (End::Unrecorded, "unrecorded"),
    (End::Failed, "failed"),
    (End::NotStarted, "not_started"),
    (End::Unknown, "unknown"),
    (End::ReleaseFailed, "release_failed"),
    (End::Dropped, "dropped"),
];

impl End {
    /// How an attempt ended with this event, if it did.
    pub(crate) fn of(event: EventKind) -> Option<Self> {
        Some(match event {
            EventKind::Completed => Self::Completed,
            EventKind::NotKept => Self::NotKept,
            EventKind::Restored => Self::Restored,
            EventKind::Unrecorded => Self::Unrecorded,
            EventKind::Released(Release::Failed) => Self::Failed,
            EventKind::Released(Release::NotStarted) => Self::NotStarted,
            EventKind::Released(Release::Unknown) => Self::Unknown,
            EventKind::ReleaseFailed(_) => Self::ReleaseFailed,
            EventKind::Dropped => Self::Dropped,
            _ => return None,
        })
    }

    /// Whether the operation is on record as done.
    pub(crate) fn is_success(self) -> bool {
        matches!(self, Self::Completed | Self::NotKept | Self::Restored)
    }
}

/// What executors ask of a store; the last one is for what a later core may ask.
pub(crate) const OPERATIONS: &[(Option<Operation>, &str)] = &[
    (Some(Operation::Claim), "claim"),
    (Some(Operation::Complete), "complete"),
    (Some(Operation::Renew), "renew"),
    (Some(Operation::Release), "release"),
    (None, "other"),
];

/// How stores fail; the last one is for the kinds of a later core.
pub(crate) const ERROR_KINDS: &[(Option<ErrorKind>, &str)] = &[
    (Some(ErrorKind::Unavailable), "unavailable"),
    (Some(ErrorKind::Timeout), "timeout"),
    (Some(ErrorKind::Throttled), "throttled"),
    (Some(ErrorKind::Conflict), "conflict"),
    (Some(ErrorKind::Full), "full"),
    (Some(ErrorKind::TooLarge), "too_large"),
    (Some(ErrorKind::Corrupt), "corrupt"),
    (Some(ErrorKind::TokenSpent), "token_spent"),
    (Some(ErrorKind::Invalid), "invalid"),
    (Some(ErrorKind::Denied), "denied"),
    (Some(ErrorKind::Unexpected), "unexpected"),
    (None, "other"),
];

/// By which way a retry succeeded.
pub(crate) const RETRY_REPLAYED: &str = "replayed";
pub(crate) const RETRY_EXECUTED: &str = "executed";

/// How a sweep went.
pub(crate) const SWEPT_OK: &str = "ok";
pub(crate) const SWEPT_ERROR: &str = "error";

/// The profile of an executor that has no label, and of those after the first
/// [`MOST_SOURCES`](crate::observer::MOST_SOURCES).
pub(crate) const NO_PROFILE: &str = "none";
pub(crate) const OTHER_PROFILES: &str = "other";
