#![doc = include_str!("../README.md")]

mod attempt_number;
mod executor;
mod fingerprint;
mod key;
mod keyed_hash;
pub mod machine;
mod record;
mod store;
#[cfg(test)]
mod testing;
mod time;
mod token;

pub use attempt_number::AttemptNumber;
pub use executor::{
    Answer, AnswerBody, AnswerError, Attempt, BeginOutcome, Begun, CheckpointError, ClaimGuard,
    Classify, Codec, CodecError, ConfigError, DetachedClaim, Disposition, Error, Event, EventKind,
    Idempotency, IdempotencyBuilder, Joined, Measurement, Never, NotKept, NotKeptReason, Observer,
    OnDuplicate, OnStoreFailure, Otherwise, Outcome, Question, Recorded, Recovery, Replayed,
    ResultPolicy, Settle, Source, TracingObserver, TurnedAway, Verdict,
};
pub use fingerprint::{Fingerprint, FingerprintBuilder, FingerprintError, FingerprintKey};
pub use key::{IdempotencyKey, KeyDigest, KeyError, Namespace, NamespaceError, Scope, StorageKey};
pub use record::{CorruptRecord, Record, ReleaseReason, State};
pub use store::*;
pub use time::{
    Clock, DurationError, Lease, ManualClock, Retention, Sleep, SystemClock, Timestamp,
};
pub use token::{ClaimToken, RandomSourceError};
pub use tokio_util::sync::CancellationToken;
