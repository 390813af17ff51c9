//! What others keep in the table, and what is left of a damaged item (H-22).

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Effect, ErrorKind, FinishOutcome, IdempotencyStore, Release, ReleaseOutcome,
    RenewOutcome, SeenClaim, Settlement, StoreAdmin, StoreError, Takeover,
};
use idempotency_dynamodb::{
    DynamoDbStore,
    aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue},
};

use crate::support::{
    Caller, TABLE, connect, emulator, item, key, lease, put, replayed, retention, until_abandoned,
};

/// Every operation of the owner and of somebody else.
async fn errors(store: &DynamoDbStore, owner: &Caller) -> Vec<Option<StoreError>> {
    let other = Caller::new(&owner.key);
    let refusing = Caller { takeover: Takeover::Refuse, ..other.clone() };
    let mut errors = vec![store.lookup(&owner.key).await.map(drop).err()];
    errors.push(refusing.claim(store).await.map(drop).err());
    for caller in [owner, &other] {
        errors.push(caller.claim(store).await.map(drop).err());
        errors.push(caller.renew(store, 9).await.map(drop).err());
        errors.push(caller.complete(store, "wrong").await.map(drop).err());
        for release in [Release::NotStarted, Release::Failed, Release::Unknown] {
            errors.push(caller.release(store, release).await.map(drop).err());
        }
    }
    let seen = SeenClaim { token: owner.token, attempt: owner.attempt };
    errors.push(store.settle(&owner.key, seen, Settlement::Failed).await.map(drop).err());
    errors.push(store.remove(&owner.key, seen).await.map(drop).err());
    errors
}

/// Nobody gets an answer, and the item stays as it is.
async fn is_refused_and_left(store: &DynamoDbStore, owner: &Caller, damaged: Item, what: &str) {
    let place = damaged["pk"].as_s().unwrap().clone();
    put(store, TABLE, damaged.clone()).await;
    for error in errors(store, owner).await {
        let error = error.unwrap_or_else(|| panic!("an answer with {what}"));
        let expected = (ErrorKind::Corrupt, Effect::None);
        assert_eq!((error.kind(), error.effect()), expected, "{what}: {error}");
    }
    assert_eq!(item(store, TABLE, &place).await, Some(damaged), "{what}");
}

type Item = std::collections::HashMap<String, AttributeValue>;

/// Kind of fault: foreign or half-known content under the key (H-22). Whichever attribute is missing or
/// has another type, and also when the record would be past its retention: nobody gets an answer, and
/// nothing is overwritten.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_without_one_of_its_attributes_is_refused_and_left() {
    let namespace = unique_namespace();
    let store = connect(emulator().address(), &namespace).await;
    for (is_completed, is_brief) in [(false, false), (true, false), (false, true), (true, true)] {
        let millis = if is_brief { 1 } else { 60_000 };
        let owner = Caller {
            lease: lease(millis),
            retention: retention(millis),
            ..Caller::new(&key(format!("{is_completed}-{is_brief}")))
        };
        owner.acquire(&store).await;
        let _held = owner.renew(&store, 1).await.unwrap();
        if is_completed {
            let _done = owner.complete(&store, "answer").await.unwrap();
        }
        let place = namespace.storage_key(&owner.key);
        let whole = item(&store, TABLE, place.as_str()).await.unwrap();
        for name in whole.keys() {
            // the key is where it is; these two are for the service and for updates, and are written anew
            if ["pk", "delete_after_s", "retention_s"].contains(&name.as_str()) {
                continue;
            }
            let mut cut = whole.clone();
            cut.remove(name);
            if name == "checkpoint" {
                // there need not be one
                cut.insert("sequence".to_owned(), AttributeValue::Null(true));
            }
            let mut odd = whole.clone();
            odd.insert(name.clone(), AttributeValue::Bool(true));
            // past its retention or not makes no difference to what is odd
            for damaged in [cut].into_iter().chain(Some(odd).filter(|_| !is_brief)) {
                is_refused_and_left(&store, &owner, damaged, &format!("no {name}")).await;
            }
        }
    }
}

fn number(number: &str) -> AttributeValue {
    AttributeValue::N(number.to_owned())
}

/// Values of the right type that no record has, for each attribute that a condition or the reader looks at.
fn impossible(name: &str) -> Vec<AttributeValue> {
    let bytes = |length: usize| AttributeValue::B(Blob::new(vec![7; length]));
    let numbers = |all: &[&str]| all.iter().map(|text| number(text)).collect();
    match name {
        "format" => numbers(&["0", "-1", "1.5", "2", "1000000000000000000000000000000"]),
        "attempt" => numbers(&["0", "-1", "1.5", "4294967296"]),
        "state" => {
            ["", "paused", "In_Progress"].map(|state| AttributeValue::S(state.to_owned())).into()
        }
        "token" => [0, 15, 17].map(bytes).into(),
        "fingerprint" => [0, 32, 34].map(bytes).into(),
        // ten years is the longest one
        "retention_ms" => {
            numbers(&["0", "-1", "0.5", "316224000001", "1000000000000000000000000000000"])
        }
        "sequence"
        | "first_claimed_at_ms"
        | "claimed_at_ms"
        | "lease_until_ms"
        | "ended_at_ms"
        | "expires_at_ms" => {
            numbers(&["-1", "18446744073709551616", "1000000000000000000000000000000"])
        }
        "checkpoint" | "response" => vec![AttributeValue::S("text".to_owned()), number("1")],
        // the service's own, and what is written anew
        "pk" | "delete_after_s" | "retention_s" => vec![],
        other => panic!("what is wrong with {other}?"),
    }
}

/// Kind of fault: foreign or half-known content under the key (H-22). A condition that looks for the type alone
/// lets the owner of an attempt write over a value that nobody can read.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_no_record_has_is_refused_and_left() {
    let namespace = unique_namespace();
    let store = connect(emulator().address(), &namespace).await;
    for state in ["held", "completed", "failed", "unknown"] {
        let owner = Caller { lease: lease(60_000), ..Caller::new(&key(state)) };
        owner.acquire(&store).await;
        let held = owner.renew(&store, 1).await.unwrap();
        assert!(matches!(held, RenewOutcome::Held { .. }), "{held:?}");
        let release = match state {
            "completed" => {
                let done = owner.complete(&store, "answer").await.unwrap();
                assert_eq!(done, FinishOutcome::Done);
                None
            }
            "failed" => Some(Release::Failed),
            "unknown" => Some(Release::Unknown),
            _ => None,
        };
        if let Some(release) = release {
            let released = owner.release(&store, release).await.unwrap();
            assert_eq!(released, ReleaseOutcome::Released);
        }
        let place = namespace.storage_key(&owner.key);
        let whole = item(&store, TABLE, place.as_str()).await.unwrap();
        for name in whole.keys() {
            for value in impossible(name) {
                let what = format!("{name} {value:?} of {state}");
                let mut damaged = whole.clone();
                damaged.insert(name.clone(), value);
                is_refused_and_left(&store, &owner, damaged, &what).await;
            }
        }
        // and what a record in this state does not have
        let other = if state == "completed" { "checkpoint" } else { "response" };
        let mut damaged = whole.clone();
        damaged.insert(other.to_owned(), AttributeValue::B(Blob::new("x")));
        is_refused_and_left(&store, &owner, damaged, &format!("{other} of {state}")).await;
    }
}

/// Numbers of the service can have fractions, which no condition can see. So a record with one is read without
/// it, by everybody: what an update may write over can be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_fraction_does_not_count() {
    let namespace = unique_namespace();
    let store = connect(emulator().address(), &namespace).await;
    let with_fractions = async |caller: &Caller| {
        let place = namespace.storage_key(&caller.key);
        let mut item = item(&store, TABLE, place.as_str()).await.unwrap();
        for (name, value) in &mut item {
            if let (true, AttributeValue::N(number)) =
                (name.ends_with("_ms") || name == "sequence", value)
            {
                let whole = number.split('.').next().unwrap();
                *number = format!("{whole}.5");
            }
        }
        put(&store, TABLE, item).await;
    };
    let owner = Caller { lease: lease(60_000), ..Caller::new(&key("k")) };
    owner.acquire(&store).await;
    let before = store.lookup(&owner.key).await.unwrap();
    with_fractions(&owner).await;
    assert_eq!(store.lookup(&owner.key).await.unwrap(), before);
    let other = Caller::new(&owner.key).claim(&store).await.unwrap();
    assert!(matches!(other, ClaimOutcome::InProgress(_)), "{other:?}");
    owner.acquire(&store).await;
    let held = owner.renew(&store, 1).await.unwrap();
    assert!(matches!(held, RenewOutcome::Held { .. }), "{held:?}");
    with_fractions(&owner).await;
    assert_eq!(owner.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
    with_fractions(&owner).await;
    assert_eq!(replayed(&store, &owner.key).await, "answer");

    // what is taken over, and what is past its retention, is replaced by a second write
    let brief = Caller { lease: lease(1), ..Caller::new(&key("abandoned")) };
    brief.acquire(&store).await;
    until_abandoned(&store, &brief.key).await;
    with_fractions(&brief).await;
    let next = Caller::new(&brief.key).claim(&store).await.unwrap();
    let ClaimOutcome::Acquired(acquired) = next else { panic!("{next:?}") };
    assert_eq!(acquired.attempt.get(), 2);
}

/// An item without the attributes that only an update needs is as good as any.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_updates_need_is_written_anew() {
    let namespace = unique_namespace();
    let store = connect(emulator().address(), &namespace).await;
    let owner = Caller::new(&key("k"));
    owner.acquire(&store).await;
    let place = namespace.storage_key(&owner.key);
    let whole = item(&store, TABLE, place.as_str()).await.unwrap();
    let mut cut = whole.clone();
    cut.remove("delete_after_s");
    cut.remove("retention_s");
    put(&store, TABLE, cut).await;
    let _held = owner.renew(&store, 1).await.unwrap();
    let renewed = item(&store, TABLE, place.as_str()).await.unwrap();
    assert!(renewed.contains_key("delete_after_s"));
    assert_eq!(renewed.get("retention_s"), whole.get("retention_s"));

    // a record that the service deletes too early would be forgotten
    for odd in ["-1577836800", "0", "1000000000000000000000000000000"] {
        let mut damaged = renewed.clone();
        damaged.insert("retention_s".to_owned(), number(odd));
        put(&store, TABLE, damaged).await;
        let _held = owner.renew(&store, 2).await.unwrap();
        let renewed = item(&store, TABLE, place.as_str()).await.unwrap();
        assert_eq!(renewed.get("retention_s"), whole.get("retention_s"), "{odd}");
        let moment = |name: &str| renewed[name].as_n().unwrap().parse::<u64>().unwrap();
        assert!(moment("delete_after_s") * 1_000 >= moment("expires_at_ms"), "{odd}");
    }
}
