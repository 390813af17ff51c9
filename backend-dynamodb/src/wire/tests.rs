use idempotency_core::{IdempotencyKey, Namespace};

use super::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_unix_millis(millis)
}

fn record(state: State) -> Record {
    Record {
        fingerprint: Fingerprint::of_bytes("the request"),
        token: ClaimToken::from_stored_bytes([7; 16]),
        attempt: AttemptNumber::new(3).unwrap(),
        retention: Retention::new(Duration::from_millis(1_500)).unwrap(),
        first_claimed_at: at(1),
        claimed_at: at(2),
        expires_at: at(1_577_836_800_001),
        state,
    }
}

fn states() -> [State; 6] {
    let some = || Some(Bytes::from_static(b"\0checkpoint"));
    let reasons = [ReleaseReason::Failed, ReleaseReason::Unknown];
    let [failed, unknown] =
        reasons.map(|reason| State::Released { reason, at: at(5), checkpoint: some() });
    [
        State::InProgress { lease_until: at(4), sequence: u64::MAX, checkpoint: some() },
        State::InProgress { lease_until: at(4), sequence: 0, checkpoint: None },
        failed,
        unknown,
        State::Completed { at: at(6), response: Bytes::new() },
        State::Unused,
    ]
}

fn place() -> StorageKey {
    Namespace::default().storage_key(&IdempotencyKey::new("shop", "order-7").unwrap())
}

fn item(layout: &Layout, record: &Record) -> Item {
    let skew_bound = Duration::from_secs(1);
    Writer { layout, namespace: "idempotency", skew_bound }.item(&place(), record)
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let mut layout = Layout::new("table").unwrap();
    layout.set_name(Attribute::State, "status").unwrap();
    layout.set_index("unsettled").unwrap();
    for state in states() {
        let written = record(state);
        let mut item = item(&layout, &written);
        assert_eq!(place_of(&layout, &item), Some("idempotency/shop/order-7"));
        let is_open = !matches!(written.state, State::Completed { .. } | State::Unused);
        assert_eq!(item.contains_key("unsettled"), is_open);
        // 2020-01-01 and a millisecond, twice the bound, rounded up; seconds
        assert_eq!(item["delete_after_s"], number(1_577_836_803));
        assert_eq!(item["retention_s"], number(2));
        assert_eq!(super::record(&layout, &mut item), Ok(written));
    }
}

/// Kind of fault: foreign or half-known content under the key (H-22).
#[test]
fn an_item_that_no_release_writes_is_corrupt() {
    let layout = Layout::new("table").unwrap();
    let [in_progress, .., completed, _] = states().map(|state| item(&layout, &record(state)));
    let not_read = ["pk", "delete_after_s", "retention_s", "checkpoint"];
    for whole in [in_progress, completed] {
        for name in whole.keys() {
            let mut cut = whole.clone();
            cut.remove(name);
            let is_needed = !not_read.contains(&name.as_str());
            assert_eq!(super::record(&layout, &mut cut).is_err(), is_needed, "{name}");
            let mut odd = whole.clone();
            odd.insert(name.clone(), AttributeValue::Bool(true));
            let is_read = is_needed || name == "checkpoint";
            assert_eq!(super::record(&layout, &mut odd).is_err(), is_read, "{name}");
        }
        let mut foreign = whole.clone();
        foreign.remove("format");
        assert_eq!(super::record(&layout, &mut foreign), Err(CorruptRecord::Foreign));
        let mut newer = whole.clone();
        newer.insert("format".to_owned(), number(2));
        let expected = CorruptRecord::FutureVersion { found: 2, known: 1 };
        assert_eq!(super::record(&layout, &mut newer), Err(expected));
        let mut unknown = whole;
        unknown.insert("state".to_owned(), text("paused"));
        let expected = CorruptRecord::Field { field: "state" };
        assert_eq!(super::record(&layout, &mut unknown), Err(expected));
    }
}

/// Nothing but a number that a condition of an update lets pass is read.
#[test]
fn numbers_are_read_without_a_fraction_and_within_their_bounds() {
    let all = u64::MAX.to_string();
    for (number, read) in [
        ("0", Some(0)),
        ("1577836800001", Some(1_577_836_800_001)),
        ("1577836800001.999", Some(1_577_836_800_001)),
        ("0.5", Some(0)),
        ("1E3", Some(1_000)),
        (all.as_str(), Some(u64::MAX)),
        ("-1", None),
        ("-0.5", None),
        ("1E30", None),
        ("", None),
        ("NaN", None),
        ("inf", None),
    ] {
        assert_eq!(super::whole(number), read, "{number}");
    }
}

#[test]
fn keys_spread_over_the_shards_of_the_list_index() {
    let mut counts = std::collections::HashMap::new();
    for number in 0..1_600 {
        let key = IdempotencyKey::new("shop", format!("order-{number}")).unwrap();
        let shard = shard_of("a", &Namespace::default().storage_key(&key));
        *counts.entry(shard).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), usize::from(SHARDS));
    assert!(counts.values().all(|count| (50..200).contains(count)), "{counts:?}");
}
