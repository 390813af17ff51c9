use proptest::{prelude::*, sample::Index};

use super::{
    tests::{forged, order_7, place},
    *,
};
use crate::testing::random_cases;

fn any_record() -> impl Strategy<Value = Record> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    let moment = || any::<u64>().prop_map(Timestamp::from_unix_millis);
    let reason = prop_oneof![Just(ReleaseReason::Failed), Just(ReleaseReason::Unknown)];
    let state = prop_oneof![
        (moment(), any::<u64>(), prop::option::of(bytes())).prop_map(
            |(lease_until, sequence, checkpoint)| State::InProgress {
                lease_until,
                sequence,
                checkpoint
            }
        ),
        (reason, moment(), prop::option::of(bytes()))
            .prop_map(|(reason, at, checkpoint)| { State::Released { reason, at, checkpoint } }),
        (moment(), bytes()).prop_map(|(at, response)| State::Completed { at, response }),
        Just(State::Unused),
    ];
    let longest = u64::try_from(Retention::MAX.as_millis()).unwrap();
    (
        (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<[u8; 16]>()),
        (1..=u32::MAX, 1..=longest, moment(), moment(), moment()),
        state,
    )
        .prop_map(|((print, digest, token), numbers, state)| {
            let (attempt, retention, first_claimed_at, claimed_at, expires_at) = numbers;
            let mut fingerprint = [1; 33];
            fingerprint[1..17].copy_from_slice(&print);
            fingerprint[17..].copy_from_slice(&digest);
            Record {
                fingerprint: Fingerprint::from_stored_bytes(fingerprint),
                token: ClaimToken::from_stored_bytes(token),
                attempt: AttemptNumber::new(attempt).unwrap(),
                retention: Retention::new(Duration::from_millis(retention)).unwrap(),
                first_claimed_at,
                claimed_at,
                expires_at,
                state,
            }
        })
}

proptest! {
    #![proptest_config(random_cases(1_000))]

    #[test]
    fn a_record_comes_back_as_it_was(record in any_record(), key in "[^\\p{Cc}]{1,40}") {
        let place = place("scope", &key);
        let stored = record.encode(&place);
        prop_assert_eq!(Record::decode(&stored, &place), Ok(record));
    }

    #[test]
    fn random_bytes_are_refused_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        head in prop_oneof![Just(&b""[..]), Just(&b"IDEM"[..]), Just(&b"IDEM\x01"[..])],
    ) {
        let stored = [head, &bytes].concat().into();
        prop_assert!(Record::decode(&stored, &order_7()).is_err());
    }

    /// Damage that keeps the checksum right gives an error, or a record that is written back as the very
    /// same bytes: nothing is dropped or made up.
    #[test]
    fn a_mutated_record_is_refused_or_understood_whole(
        record in any_record(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let stored = record.encode(&order_7());
        let mut body = stored[..stored.len() - CHECKSUM].to_vec();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let stored = forged(&[body.as_slice(), &[0; CHECKSUM]].concat(), &[]);
        if let Ok(record) = Record::decode(&stored, &order_7()) {
            prop_assert_eq!(record.encode(&order_7()), stored);
        }
    }
}
