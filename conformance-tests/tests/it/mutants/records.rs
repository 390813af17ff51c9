//! Faults of unreadable records and of limits: C00, C41.

use bytes::Bytes;
use idempotency_conformance::Clause::{C00, C41};
use idempotency_core::{
    CorruptRecord, ErrorKind, Fingerprint, Operation, Record, RenewRequest, StorageKey, StoreError,
};

use super::{Mutant, helpers::*};

type Read = Result<Option<Record>, StoreError>;

fn read(operation: Operation, stored: &Bytes, place: &StorageKey) -> Read {
    let corrupt = |cause| StoreError::corrupt(operation, cause);
    Record::decode(stored, place).map(Some).map_err(corrupt)
}

/// Corrupt records count as absent for this operation.
macro_rules! absent_for {
    ($name:literal, $($operation:ident)|*) => {
        Mutant::of($name, C00, |rules| {
            rules.read = |operation, stored, place| match operation {
                $(Operation::$operation)|* => Ok(Record::decode(stored, place).ok()),
                _ => read(operation, stored, place),
            };
        })
    };
}

pub(crate) fn mutants() -> Vec<Mutant> {
    vec![
        absent_for!("a claim takes an unreadable record for absent", Claim),
        absent_for!("a completion overwrites an unreadable record", Complete),
        absent_for!("a lookup shows an unreadable record as absent", Lookup),
        absent_for!("an unreadable record is lost", Renew | Release),
        Mutant::of("mismatch is answered before unreadable", C00, |rules| {
            rules.read = |operation, stored, place| match Record::decode(stored, place) {
                Err(CorruptRecord::FutureVersion { .. }) if operation == Operation::Claim => {
                    Ok(Some(of_a_newer_release(stored, place)))
                }
                _ => read(operation, stored, place),
            };
        }),
        Mutant::of("an unreadable record is swept", C00, |rules| rules.sweeps_unreadable = true),
        Mutant::of("an unreadable record is an unexpected error", C00, |rules| {
            rules.read = |operation, stored, place| {
                let unexpected = |error: CorruptRecord| {
                    StoreError::new(operation, ErrorKind::Unexpected, error.to_string())
                };
                Record::decode(stored, place).map(Some).map_err(unexpected)
            };
        }),
        Mutant::of("the limit of a checkpoint is not checked", C41, |rules| {
            rules.check_checkpoint = |_, _| Ok(());
        }),
        Mutant::of("a checkpoint is cut at 255 bytes", C41, |rules| {
            rules.renew = |record, request, now| {
                let cut = |bytes: &Bytes| bytes.slice(..bytes.len().min(255));
                let checkpoint = request.checkpoint.as_ref().map(cut);
                let request = RenewRequest { checkpoint, ..request.clone() };
                Ok(idempotency_core::machine::renew(record, &request, now))
            };
        }),
        Mutant::of("a checkpoint of the largest size is refused", C41, |rules| {
            rules.check_checkpoint = |profile, checkpoint| match checkpoint {
                Some(bytes) if bytes.len() >= profile.max_checkpoint_bytes => {
                    let error = StoreError::new(Operation::Renew, ErrorKind::TooLarge, "too large");
                    Err(error.without_effect())
                }
                _ => Ok(()),
            };
        }),
    ]
}

/// The fields of a record whose format is too new: they need not mean what they used to.
fn of_a_newer_release(stored: &Bytes, place: &StorageKey) -> Record {
    let mut bytes = stored.to_vec();
    bytes[4] = 1;
    let record = Record::decode(&bytes.into(), place).unwrap();
    edited(Some(&record), |record| record.fingerprint = Fingerprint::of_bytes("new")).unwrap()
}
