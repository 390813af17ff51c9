//! What others keep in the table, and what is left of a damaged item (H-22).

use idempotency_conformance::unique_namespace;
use idempotency_core::{Effect, ErrorKind, IdempotencyStore, Release, StoreError, Takeover};
use idempotency_dynamodb::{DynamoDbStore, aws_sdk_dynamodb::types::AttributeValue};

use crate::support::{Caller, TABLE, connect, emulator, item, key, lease, put, retention};

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
    errors
}

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
                put(&store, TABLE, damaged.clone()).await;
                for error in errors(&store, &owner).await {
                    let error = error.unwrap_or_else(|| panic!("an answer without {name}"));
                    let expected = (ErrorKind::Corrupt, Effect::None);
                    assert_eq!((error.kind(), error.effect()), expected, "{name}: {error}");
                }
                assert_eq!(item(&store, TABLE, place.as_str()).await, Some(damaged), "{name}");
            }
        }
    }
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
}
