use std::{fs, path::Path};

use super::*;
use crate::{IdempotencyKey, Namespace};

const MARK: usize = HEADER - 5;

pub(super) fn place(scope: &str, key: &str) -> StorageKey {
    Namespace::default().storage_key(&IdempotencyKey::new(scope, key).unwrap())
}

pub(super) fn order_7() -> StorageKey {
    place("merchant_42", "order-7")
}

fn golden(name: &str) -> Bytes {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/record-v1");
    fs::read(folder.join(name).with_extension("bin")).unwrap().into()
}

/// The records of `make.py`, said a second time.
fn goldens() -> Vec<(&'static str, Record)> {
    let moment = Timestamp::from_unix_millis;
    let record = |attempt, state| Record {
        fingerprint: Fingerprint::from_stored_bytes(std::array::from_fn(|i| match i {
            0 => 1,
            i => 0x1f + u8::try_from(i).unwrap(),
        })),
        token: ClaimToken::from_stored_bytes(std::array::from_fn(|i| {
            0xa0 + u8::try_from(i).unwrap()
        })),
        attempt: AttemptNumber::new(attempt).unwrap(),
        retention: Retention::DEFAULT,
        first_claimed_at: moment(if attempt == 1 { 1_767_225_660_001 } else { 1_767_225_600_000 }),
        claimed_at: moment(1_767_225_660_001),
        expires_at: moment(1_767_312_090_002),
        state,
    };
    let at = moment(1_767_225_690_003);
    let in_progress =
        |sequence, checkpoint| State::InProgress { lease_until: at, sequence, checkpoint };
    let released = |reason, checkpoint| State::Released {
        reason,
        at,
        checkpoint: Some(Bytes::from_static(checkpoint)),
    };
    let completed = |response| State::Completed { at, response };
    let checkpoint = Bytes::from_static(b"charge created");
    let all_bytes = (0..=255).collect();
    vec![
        ("in-progress", record(1, in_progress(0, None))),
        ("in-progress-renewed", record(3, in_progress(9, Some(checkpoint)))),
        ("released-failed", record(2, released(ReleaseReason::Failed, b""))),
        ("released-unknown", record(1, released(ReleaseReason::Unknown, b"\x00\xff\xfe"))),
        ("completed", record(u32::MAX, completed(all_bytes))),
        ("completed-empty", record(1, completed(Bytes::new()))),
        ("unused", record(1, State::Unused)),
    ]
}

#[test]
fn golden_records_of_format_1_are_read_and_written_as_they_were() {
    let key = order_7();
    for (name, record) in goldens() {
        let stored = golden(name);
        assert_eq!(Record::decode(&stored, &key).as_ref(), Ok(&record), "{name}");
        assert_eq!(record.encode(&key), stored, "{name}");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/record-v1");
    let files = fs::read_dir(folder)
        .unwrap()
        .filter(|file| file.as_ref().unwrap().path().extension() == Some("bin".as_ref()));
    assert_eq!(files.count(), goldens().len(), "every file is asserted");
}

#[test]
fn a_response_shares_the_memory_it_was_read_from() {
    let stored = golden("completed");
    let record = Record::decode(&stored, &order_7()).unwrap();
    let State::Completed { response, .. } = record.state else {
        panic!("{record:?}");
    };
    assert_eq!(response.as_ptr(), stored[HEADER..].as_ptr());
}

#[test]
fn a_record_cut_short_anywhere_is_refused() {
    for (name, _) in goldens() {
        let stored = golden(name);
        for found in 0..stored.len() {
            let expected = match found {
                0..5 => CorruptRecord::Foreign,
                5..HEADER => CorruptRecord::Length { found, expected: Record::OVERHEAD_BYTES },
                _ => CorruptRecord::Length { found, expected: stored.len() },
            };
            let cut = stored.slice(..found);
            assert_eq!(Record::decode(&cut, &order_7()), Err(expected), "{name} {found}");
        }
    }
}

#[test]
fn bytes_behind_the_end_are_refused() {
    for (name, _) in goldens() {
        let stored = golden(name);
        for extra in [1, 8, 4_096] {
            let found = stored.len() + extra;
            let longer = [stored.to_vec(), vec![0; extra]].concat().into();
            let expected = CorruptRecord::Length { found, expected: stored.len() };
            assert_eq!(Record::decode(&longer, &order_7()), Err(expected), "{name}");
        }
    }
}

#[test]
fn a_changed_byte_is_refused_wherever_it_is() {
    for (name, _) in goldens() {
        let stored = golden(name);
        for at in 0..stored.len() {
            for flip in [0x01, 0x02, 0x10, 0x80, 0xff] {
                let mut changed = stored.to_vec();
                changed[at] ^= flip;
                let refused = Record::decode(&changed.into(), &order_7()).unwrap_err();
                let as_expected = match at {
                    0..4 => refused == CorruptRecord::Foreign,
                    4 if flip == 0x01 => refused == field("format"),
                    4 => matches!(refused, CorruptRecord::FutureVersion { known: 1, .. }),
                    124..128 => matches!(refused, CorruptRecord::Length { .. }),
                    _ => refused == CorruptRecord::Checksum,
                };
                assert!(as_expected, "{name}: byte {at} ^ {flip:#04x}: {refused:?}");
            }
        }
    }
}

/// Kind of fault: old records met by new code and the other way round. The rest of a newer format is
/// not looked at: it may have any layout.
#[test]
fn a_newer_format_is_named_whatever_follows() {
    for format in [2, 3, 255] {
        let known = FORMAT;
        let expected = CorruptRecord::FutureVersion { found: format, known };
        for rest in [0, 1, 131, 100_000] {
            let stored = [b"IDEM".as_slice(), &[format], &vec![7; rest]].concat();
            assert_eq!(Record::decode(&stored.into(), &order_7()), Err(expected));
        }
    }
    let zero = Bytes::from_static(b"IDEM\0 and more");
    assert_eq!(Record::decode(&zero, &order_7()), Err(field("format")));
}

/// Kind of fault: another program's data at the record's place, read as a record or as nothing.
#[test]
fn data_of_another_program_is_foreign() {
    let zeros = vec![0; 1 << 20];
    for foreign in [
        b"".as_slice(),
        b"1",
        b"I",
        b"IDEM",
        b"idem\x01",
        b"{\"status\":\"COMPLETED\",\"expiration\":1767225600}",
        b"\xef\xbb\xbfIDEM\x01",
        &zeros,
    ] {
        let stored = Bytes::copy_from_slice(foreign);
        let refused = Record::decode(&stored, &order_7());
        assert_eq!(refused, Err(CorruptRecord::Foreign), "{} bytes", foreign.len());
    }
}

/// C35.
#[test]
fn a_record_of_another_key_is_refused() {
    let elsewhere = Namespace::new("elsewhere").unwrap();
    let key = IdempotencyKey::new("merchant_42", "order-7").unwrap();
    for (name, _) in goldens() {
        for other in [
            place("merchant_42", "order-8"),
            place("merchant_43", "order-7"),
            elsewhere.storage_key(&key),
        ] {
            let refused = Record::decode(&golden(name), &other);
            assert_eq!(refused, Err(CorruptRecord::OtherKey), "{name}");
        }
    }
}

/// Bytes and where they go.
type Change<'a> = (usize, &'a [u8]);

/// `stored` with the changes and the checksum that fits.
pub(super) fn forged(stored: &[u8], changes: &[Change<'_>]) -> Bytes {
    let (body, _) = stored.split_at(stored.len() - CHECKSUM);
    let mut body = body.to_vec();
    for (offset, bytes) in changes {
        body[*offset..*offset + bytes.len()].copy_from_slice(bytes);
    }
    let sum = checksum(&body);
    [body.as_slice(), &sum].concat().into()
}

#[test]
fn what_no_release_writes_is_refused_even_with_a_checksum_that_fits() {
    let eleven_years = 11 * 366 * 86_400_000_u64;
    let cases: [(&str, &[Change<'_>], &str); 12] = [
        ("completed", &[(5, &[5])], "state"),
        ("completed", &[(5, &[255])], "state"),
        ("completed", &[(5, &[4])], "state"),
        ("completed-empty", &[(MARK, &[0])], "state"),
        ("unused", &[(MARK, &[1])], "state"),
        ("unused", &[(107, &[0; 8])], "state"),
        ("completed", &[(71, &[0; 4])], "attempt"),
        ("completed", &[(75, &[0; 8])], "retention"),
        ("completed", &[(75, &eleven_years.to_be_bytes())], "retention"),
        ("in-progress-renewed", &[(MARK, &[0])], "payload mark"),
        ("in-progress", &[(MARK, &[2])], "payload mark"),
        ("released-failed", &[(122, &[1])], "sequence"),
    ];
    for (name, changes, expected) in cases {
        let stored = forged(&golden(name), changes);
        let refused = Record::decode(&stored, &order_7());
        assert_eq!(refused, Err(field(expected)), "{name} {changes:?}");
    }
}
