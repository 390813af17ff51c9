use std::{fs, path::Path};

use idempotency_core::{IdempotencyKey, Lease, Takeover};

use super::*;

fn name() -> Name {
    Name::of("idempotency/merchant_42/order-7")
}

const NOW: Timestamp = Timestamp::from_unix_millis(1_767_225_600_000);
const LEFT: Duration = Duration::from_hours(24);

fn decoded(value: Vec<u8>) -> Result<Record, CorruptRecord> {
    decode(&value.into(), name(), LEFT, NOW)
}

/// Numbers that are written by hand, so that the layout is said a second time.
fn value(state: u8, payload: Option<&[u8]>, sequence: u64) -> Vec<u8> {
    let mut value = b"IDR\x01".to_vec();
    value.extend(name().0);
    value.extend([1; 33]);
    value.extend([0xa0; 16]);
    value.extend([0, 0, 0, 3, state, 0, u8::from(payload.is_some())]);
    value.extend(u32::try_from(payload.unwrap_or_default().len()).unwrap().to_be_bytes());
    value.extend(86_400_000_u64.to_be_bytes());
    value.extend(86_430_000_u64.to_be_bytes());
    value.extend(sequence.to_be_bytes());
    value.extend(payload.unwrap_or_default());
    value.extend(1_000_u64.to_be_bytes());
    value.extend(70_000_u64.to_be_bytes());
    value
}

#[test]
fn a_record_in_progress_is_read_with_the_moments_that_follow_from_what_is_left() {
    let record = decoded(value(0, Some(b"checkpoint"), 9)).unwrap();
    assert_eq!(record.attempt.get(), 3);
    assert_eq!(record.expires_at, NOW.after(LEFT));
    // written 30 s ago
    assert_eq!(record.claimed_at, NOW.before(Duration::from_secs(31)));
    assert_eq!(record.first_claimed_at, NOW.before(Duration::from_secs(100)));
    let checkpoint = Some(Bytes::from_static(b"checkpoint"));
    assert_eq!(record.state, State::InProgress { lease_until: NOW, sequence: 9, checkpoint });
}

#[test]
fn every_state_is_read() {
    let response = Bytes::from_static(b"");
    let done = decoded(value(3, Some(b""), 0)).unwrap().state;
    assert_eq!(done, State::Completed { at: NOW, response });
    for (state, reason) in [(1, ReleaseReason::Failed), (2, ReleaseReason::Unknown)] {
        let released = decoded(value(state, None, 0)).unwrap().state;
        assert_eq!(released, State::Released { reason, at: NOW, checkpoint: None });
    }
    assert_eq!(decoded(value(4, None, 0)).unwrap().state, State::Unused);
}

/// A clock that was set back leaves more than the whole life: nothing underflows, the lease is longer.
#[test]
fn more_left_than_there_was_is_a_clock_that_was_set_back() {
    let left = Duration::from_hours(48);
    let record = decode(&value(0, None, 0).into(), name(), left, NOW).unwrap();
    assert_eq!(record.claimed_at, NOW.before(Duration::from_secs(1)));
    assert_eq!(record.expires_at, NOW.after(left));
}

#[test]
fn what_no_release_writes_is_refused() {
    let changed = |at: usize, byte: u8| {
        let mut changed = value(3, Some(b"x"), 0);
        changed[at] = byte;
        decoded(changed)
    };
    let newer = CorruptRecord::FutureVersion { found: 2, known: 1 };
    assert_eq!(changed(0, b'X'), Err(CorruptRecord::Foreign));
    assert_eq!(changed(3, 2), Err(newer));
    assert_eq!(changed(3, 0), Err(field("format")));
    assert_eq!(changed(4, name().0[0] ^ 1), Err(CorruptRecord::OtherKey));
    assert_eq!(changed(72, 0), Err(field("attempt")));
    assert_eq!(changed(73, 5), Err(field("state")));
    assert_eq!(changed(75, 2), Err(field("payload mark")));
    assert_eq!(changed(80, 0xff), Err(field("retention")));
    assert_eq!(changed(103, 1), Err(field("sequence")));
    assert_eq!(decoded(value(3, None, 0)), Err(field("state")));
    assert_eq!(decoded(value(4, Some(b"x"), 0)), Err(field("state")));
    let whole = value(0, Some(b"checkpoint"), 1);
    for found in 0..whole.len() {
        assert!(decoded(whole[..found].to_vec()).is_err(), "{found}");
    }
    assert!(decoded([whole.as_slice(), b"x"].concat()).is_err());
}

/// Kind of fault: old records met by new code. The files are those of format 1 for ever.
#[test]
fn golden_values_of_format_1_are_read_and_written_as_they_were() {
    let key = IdempotencyKey::new("merchant_42", "order-7").unwrap();
    let fingerprint = Fingerprint::from_stored_bytes([1; 33]);
    let token = ClaimToken::from_stored_bytes([0xa0; 16]);
    let claim = ClaimRequest {
        key: &key,
        fingerprint,
        token,
        lease: Lease::DEFAULT,
        retention: Retention::DEFAULT,
        takeover: Takeover::Allow,
    };
    let complete = CompleteRequest {
        key: &key,
        token,
        attempt: AttemptNumber::new(3).unwrap(),
        fingerprint,
        response: Bytes::from_static(b"\x00the answer\xff"),
        retention: Retention::DEFAULT,
    };
    let mut completed = completed(name(), &complete);
    completed.extend([0, 0, 0, 0, 0, 0, 0x03, 0xe8, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/value-v1");
    for (file, written) in [
        ("claimed.bin", first_attempt(name(), &claim)),
        ("renewed.bin", value(0, Some(b"checkpoint"), 9)),
        ("completed.bin", completed),
    ] {
        let golden = fs::read(folder.join(file)).unwrap();
        assert_eq!(written, golden, "{file}");
        assert!(decoded(golden).is_ok(), "{file}");
    }
}

proptest::proptest! {
    #[test]
    fn random_bytes_are_refused_without_a_panic(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
        marked in proptest::prelude::any::<bool>(),
    ) {
        let head = if marked { name().mark().to_vec() } else { Vec::new() };
        let _read_or_refused = decoded([head, bytes].concat());
    }
}
