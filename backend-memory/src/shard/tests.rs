use std::time::Duration;

use idempotency_core::{
    AttemptNumber, ClaimToken, Fingerprint, IdempotencyKey, Record, Retention, State, Timestamp,
};

use super::*;

fn key(number: u64) -> IdempotencyKey {
    IdempotencyKey::new("scope", format!("k{number}")).unwrap()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_unix_millis(millis)
}

fn ends(millis: u64) -> Record {
    Record {
        fingerprint: Fingerprint::of_bytes("x"),
        token: ClaimToken::from_stored_bytes([1; 16]),
        attempt: AttemptNumber::FIRST,
        retention: Retention::new(Duration::from_secs(1)).unwrap(),
        first_claimed_at: at(0),
        claimed_at: at(0),
        expires_at: at(millis),
        state: State::Unused,
    }
}

fn put(shard: &mut Shard, number: u64, record: Record) {
    put_at(shard, number, number, record);
}

fn put_at(shard: &mut Shard, hash: u64, number: u64, record: Record) {
    let (key, now) = (key(number), at(0));
    let put = |_: Option<&Record>| Ok::<_, ()>(Some(record));
    let key = &key;
    let _ = shard.update(At { hash, key, now }, &mut None, put).unwrap();
}

fn gone(shard: &mut Shard, now: u64) -> usize {
    let mut gone = Vec::new();
    while shard.take_expired(at(now), 10, &mut gone) > 0 {}
    gone.len()
}

/// Kind of fault: memory growth. Ends that move earlier again and again do not pile registrations up.
#[test]
fn stale_registrations_never_outnumber_the_records() {
    let mut shard = Shard::default();
    for number in 0..100 {
        put(&mut shard, number, ends(5_000));
    }
    for end in (1..900).rev() {
        for number in 0..100 {
            put(&mut shard, number, ends(end));
        }
        assert!(shard.due.len() <= 201, "{}", shard.due.len());
    }
    assert_eq!(gone(&mut shard, 1), 0);
    assert_eq!(gone(&mut shard, 2), 100);
    assert_eq!((shard.due.len(), shard.stale, shard.records.len()), (0, 0, 0));
    assert_eq!(shard.wanted_room(), Some(0));
    let _ = shard.move_into(Room::new(0));
    assert_eq!((shard.due.capacity(), shard.records.capacity()), (0, 0));
    assert_eq!(shard.earliest(), NEVER);
}

#[test]
fn an_end_that_moved_later_is_looked_at_twice_and_kept_until_then() {
    let mut shard = Shard::default();
    put(&mut shard, 1, ends(5_000));
    assert_eq!(shard.earliest(), at(1_000), "it may be completed at once");
    put(&mut shard, 1, ends(8_000));
    assert_eq!(gone(&mut shard, 1_001), 0);
    assert_eq!(shard.earliest(), at(8_000));
    assert_eq!(gone(&mut shard, 8_000), 0);
    assert_eq!(gone(&mut shard, 8_001), 1);
}

/// Two keys with one hash are two records, also when they end together.
#[test]
fn keys_whose_hashes_meet_are_told_apart() {
    let mut shard = Shard::default();
    for number in 0..2 {
        put_at(&mut shard, 7, number, ends(500 + number));
    }
    assert_eq!(shard.get(7, &key(1)).unwrap().expires_at, at(501));
    assert_eq!(shard.get(7, &key(2)), None);
    assert_eq!(gone(&mut shard, 501), 1);
    assert_eq!(shard.get(7, &key(0)), None);
    assert_eq!(gone(&mut shard, 502), 1);
    assert_eq!(shard.due.len(), 0);
}

#[test]
fn a_shard_that_moves_keeps_its_records_and_their_ends() {
    let mut shard = Shard::default();
    let mut moves = 0;
    for number in 0..5_000 {
        put(&mut shard, number, ends(2_000 + number));
        if let Some(records) = shard.wanted_room() {
            let _ = shard.move_into(Room::new(records));
            moves += 1;
            assert_eq!(shard.wanted_room(), None, "moves once, at {number}");
        }
    }
    assert!((5..20).contains(&moves), "{moves}");
    assert!(shard.get(4_000, &key(4_000)).is_some());
    assert_eq!(gone(&mut shard, 6_950), 4_950);
    assert_eq!(shard.wanted_room(), Some(100));
    let _ = shard.move_into(Room::new(10));
    assert_eq!(shard.records.len(), 50, "too small: nothing moves");
    let _ = shard.move_into(Room::new(100));
    assert!(shard.records.capacity() < 250 && shard.due.capacity() < 250);
    assert_eq!(shard.earliest(), at(6_950));
    assert_eq!(gone(&mut shard, 7_000), 50);
}
