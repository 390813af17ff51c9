//! The contract between a store and those who use it.

mod admin;
mod cas;
mod connected;
mod doctor;
mod error;
mod idempotency_store;
mod outcome;
mod profile;
mod record_store;
mod request;
mod schema;
mod sweep;
mod watch;

pub use admin::{
    ListPage, ListQuery, ListState, ListedRecord, RemoveOutcome, SeenClaim, SettleOutcome,
    Settlement, StoreAdmin,
};
pub use cas::CasStore;
pub use connected::Connected;
pub use doctor::{Doctor, Finding, Severity};
pub use error::{Effect, ErrorKind, Operation, StoreError};
pub use idempotency_store::IdempotencyStore;
pub use outcome::{
    Abandoned, Acquired, ClaimOutcome, FinishOutcome, Mismatch, ReleaseOutcome, RenewOutcome,
    Replay, Running,
};
pub use profile::{Sharing, StoreProfile, Survives};
pub use record_store::{RecordStore, Version, Versioned};
pub use request::{ClaimRequest, CompleteRequest, Release, ReleaseRequest, RenewRequest, Takeover};
pub use schema::Schema;
pub use sweep::{Sweep, SweepReport, Sweeper};
pub use watch::{Watch, Watching};
