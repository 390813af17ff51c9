//! C00 and C35: what cannot be read is an error on every operation, and stays as it is.

use std::error::Error;

use super::*;
use crate::{CorruptRecord, Effect, ErrorKind, Namespace, Operation, State, StoreError, Timestamp};

/// A record of `key`, long past its retention.
fn expired_record(key: &IdempotencyKey) -> Bytes {
    let record = Record {
        fingerprint: Fingerprint::of_bytes("request"),
        token: token(1),
        attempt: AttemptNumber::FIRST,
        retention: Retention::DEFAULT,
        first_claimed_at: Timestamp::from_unix_millis(1),
        claimed_at: Timestamp::from_unix_millis(1),
        expires_at: Timestamp::from_unix_millis(2),
        state: State::Unused,
    };
    record.encode(&Namespace::default().storage_key(key))
}

/// All of it would count as expired if it were read.
fn unreadable() -> Vec<(Bytes, CorruptRecord)> {
    let good = expired_record(&key());
    let mut damaged = good.to_vec();
    damaged[100] ^= 1;
    let mut newer = good.to_vec();
    newer[4] = 2;
    let other_key = IdempotencyKey::new("scope", "another").unwrap();
    let cut = CorruptRecord::Length { found: 130, expected: 136 };
    vec![
        (Bytes::new(), CorruptRecord::Foreign),
        (Bytes::from_static(b"1"), CorruptRecord::Foreign),
        (Bytes::from_static(b"{\"a\":1}"), CorruptRecord::Foreign),
        (vec![0; 1 << 20].into(), CorruptRecord::Foreign),
        (good.slice(..130), cut),
        (damaged.into(), CorruptRecord::Checksum),
        (newer.into(), CorruptRecord::FutureVersion { found: 2, known: 1 }),
        (Bytes::from_static(b"IDEM\0"), CorruptRecord::Field { field: "format" }),
        (expired_record(&other_key), CorruptRecord::OtherKey),
    ]
}

async fn all_operations(store: &impl IdempotencyStore) -> [(Operation, StoreError); 5] {
    let key = &key();
    let freed = release(key, 1, Release::NotStarted);
    [
        (Operation::Claim, store.claim(claim(key, 1)).await.unwrap_err()),
        (Operation::Complete, store.complete(complete(key, 1)).await.unwrap_err()),
        (Operation::Renew, store.renew(renew(key, 1)).await.unwrap_err()),
        (Operation::Release, store.release(freed).await.unwrap_err()),
        (Operation::Lookup, store.lookup(key).await.unwrap_err()),
    ]
}

#[tokio::test]
async fn unreadable_bytes_are_an_error_and_stay_as_they_are() {
    for (bytes, cause) in unreadable() {
        let store = CasStore::new(MapRecords::new(ManualClock::new()));
        store.records().overwrite(&place(), bytes.clone());
        let before = store.records().stored(&place());
        for (operation, error) in all_operations(&store).await {
            let said = (error.kind(), error.operation(), error.effect());
            let expected = (ErrorKind::Corrupt, operation, Effect::None);
            assert_eq!(said, expected, "{cause:?}");
            let source = error.source().and_then(|it| it.downcast_ref());
            assert_eq!(source, Some(&cause));
        }
        assert_eq!(store.records().stored(&place()), before, "{cause:?}");
    }
}

/// The counterpart: the same record, readable and expired, is no error and makes room.
#[tokio::test]
async fn a_readable_record_past_its_retention_makes_room() {
    let store = CasStore::new(MapRecords::new(ManualClock::new()));
    store.records().overwrite(&place(), expired_record(&key()));
    assert_eq!(store.lookup(&key()).await.unwrap(), None);
    assert!(is_acquired(&store.claim(claim(&key(), 1)).await.unwrap()));
}
