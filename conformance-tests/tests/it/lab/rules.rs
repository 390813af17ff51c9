//! The rules of a laboratory store. The defaults are the contract's.

use bytes::Bytes;
use idempotency_core::{
    ClaimOutcome, ClaimRequest, CompleteRequest, FinishOutcome, IdempotencyKey, Namespace,
    Operation, Record, ReleaseOutcome, ReleaseRequest, RenewOutcome, RenewRequest, StorageKey,
    StoreError, StoreProfile, Timestamp,
    machine::{self, Decision, Now},
};

pub(crate) type Answer<A> = Result<Decision<A>, StoreError>;

#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) claim: fn(Option<&Record>, &ClaimRequest<'_>, Now) -> Answer<ClaimOutcome>,
    pub(crate) complete: fn(Option<&Record>, &CompleteRequest<'_>, Now) -> Answer<FinishOutcome>,
    pub(crate) renew: fn(Option<&Record>, &RenewRequest<'_>, Now) -> Answer<RenewOutcome>,
    pub(crate) release: fn(Option<&Record>, &ReleaseRequest<'_>, Now) -> Answer<ReleaseOutcome>,
    pub(crate) lookup: fn(Option<&Record>, Now) -> Option<Record>,
    pub(crate) check_response: fn(&StoreProfile, &Bytes) -> Result<(), StoreError>,
    pub(crate) check_checkpoint: fn(&StoreProfile, Option<&Bytes>) -> Result<(), StoreError>,
    pub(crate) place: fn(&Namespace, &IdempotencyKey) -> String,
    /// The key that a record names.
    pub(crate) name: fn(&Namespace, &IdempotencyKey) -> StorageKey,
    pub(crate) read: fn(Operation, &Bytes, &StorageKey) -> Result<Option<Record>, StoreError>,
    /// The clock of the connection with this number.
    pub(crate) now: fn(Timestamp, usize) -> Timestamp,
    pub(crate) sweep: fn(&Record, Now) -> bool,
    pub(crate) sweep_batch: fn(usize) -> usize,
    pub(crate) counts_as_abandoned: fn(&Record) -> bool,
    pub(crate) sweeps_unreadable: bool,
    pub(crate) steps: Steps,
    pub(crate) watching: fn(Option<Record>) -> Option<Record>,
}

/// How the laboratory store gets from reading to writing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    /// In one step.
    Atomic,
    /// It reads, lets others act, and writes what it decided before.
    CheckThenAct,
    /// It removes the record and writes the new one later.
    RemoveThenWrite,
    /// It marks the key as busy, and takes the mark away at the end.
    Busy,
    /// A claim is written with its retention for a lease first.
    Provisional,
    /// Lookups and claims read what was there one write ago.
    StaleReads,
    /// A sweep looks first and removes later.
    SweepLater,
    /// It panics where it should answer.
    Panic,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            claim: |record, request, now| machine::claim(record, request, now),
            complete: |record, request, now| Ok(machine::complete(record, request, now)),
            renew: |record, request, now| Ok(machine::renew(record, request, now)),
            release: |record, request, now| Ok(machine::release(record, request, now)),
            lookup: |record, now| machine::lookup(record, now).cloned(),
            check_response: StoreProfile::check_response,
            check_checkpoint: StoreProfile::check_checkpoint,
            place: |namespace, key| namespace.storage_key(key).as_str().to_owned(),
            name: Namespace::storage_key,
            read: |operation, stored, place| {
                let record = Record::decode(stored, place);
                let corrupt = |cause| StoreError::corrupt(operation, cause);
                record.map(Some).map_err(corrupt)
            },
            now: |now, _| now,
            sweep: machine::is_expired,
            sweep_batch: |batch| batch,
            counts_as_abandoned: machine::is_unsettled,
            sweeps_unreadable: false,
            steps: Steps::Atomic,
            watching: |record| record,
        }
    }
}
