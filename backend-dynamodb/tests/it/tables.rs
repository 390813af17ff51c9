//! Tables of other shapes (H-52), and setting them up.

use std::collections::HashMap;

use idempotency_core::{
    Doctor, ErrorKind, FinishOutcome, IdempotencyStore, ListQuery, ListState, Namespace, Release,
    ReleaseOutcome, RenewOutcome, Schema, Severity, StoreAdmin,
};
use idempotency_dynamodb::{
    Attribute, DynamoDbStore, DynamoDbStoreBuilder, aws_sdk_dynamodb::types::AttributeValue,
};
use test_servers::dynamodb::DynamoDbEmulator;

use crate::support::{Caller, SKEW_BOUND, key, replayed};

/// A table that is not ours: both keys and most attributes have names that are reserved words.
fn reserved(namespace: &str) -> DynamoDbStoreBuilder {
    DynamoDbStore::builder("orders")
        .unwrap()
        .partition_key("key")
        .unwrap()
        .sort_key("data", "idempotency")
        .unwrap()
        .attribute(Attribute::State, "status")
        .unwrap()
        .attribute(Attribute::DeleteAfter, "ttl")
        .unwrap()
        .attribute(Attribute::Token, "token")
        .unwrap()
        .attribute(Attribute::Response, "value")
        .unwrap()
        .attribute(Attribute::Attempt, "count")
        .unwrap()
        .attribute(Attribute::Sequence, "order by #1; -- \"")
        .unwrap()
        .index("open")
        .unwrap()
        .namespace(Namespace::new(namespace).unwrap())
        .skew_bound(SKEW_BOUND)
        .timeout(std::time::Duration::from_secs(10))
}

async fn scan(store: &DynamoDbStore) -> Vec<HashMap<String, AttributeValue>> {
    let scanned = store.client().scan().table_name("orders").consistent_read(true).send().await;
    scanned.unwrap().items.unwrap_or_default()
}

/// Kind of fault: the fixed half of a composite key was overwritten on write, so that reads and writes met
/// different items (H-52).
#[tokio::test(flavor = "multi_thread")]
async fn a_composite_key_with_reserved_names_holds_two_applications_and_other_items() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let connect = async |name: &str| {
        reserved(name).endpoint(emulator.endpoint()).create(true).connect().await.unwrap()
    };
    let (one, two) = (connect("one").await, connect("two").await);
    // an item of the application's own, in the same partition as the first record
    let place = Namespace::new("one").unwrap().storage_key(&key("k"));
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let own = HashMap::from([
        ("key".to_owned(), text(place.as_str())),
        ("data".to_owned(), text("order")),
        ("status".to_owned(), text("paid")),
    ]);
    one.client().put_item().table_name("orders").set_item(Some(own.clone())).send().await.unwrap();

    for store in [&one, &two] {
        let caller = Caller::new(&key("k"));
        caller.acquire(store).await;
        let held = caller.renew(store, 1).await.unwrap();
        assert!(matches!(held, RenewOutcome::Held { .. }), "{held:?}");
        let failed = Caller::new(&key("failed"));
        failed.acquire(store).await;
        assert_eq!(failed.release(store, Release::Failed).await.unwrap(), ReleaseOutcome::Released);
        Caller::new(&key("failed")).acquire(store).await;
        let unused = Caller::new(&key("unused"));
        unused.acquire(store).await;
        assert_eq!(
            unused.release(store, Release::NotStarted).await.unwrap(),
            ReleaseOutcome::Released
        );
        let query = ListQuery { state: Some(ListState::InProgress), ..ListQuery::default() };
        let mut listed = store.list(query.clone()).await.unwrap();
        while let Some(page) = listed.next.take() {
            let more = store.list(ListQuery { page: Some(page), ..query.clone() }).await.unwrap();
            listed.records.extend(more.records);
            listed.next = more.next;
        }
        assert_eq!(listed.records.len(), 2, "{listed:?}");
        assert_eq!(caller.complete(store, "answer").await.unwrap(), FinishOutcome::Done);
        assert_eq!(replayed(store, &caller.key).await, "answer");
    }
    let items = scan(&one).await;
    // one item a key and application, and the other one
    assert_eq!(items.len(), 7);
    assert!(items.contains(&own));
    let records: Vec<_> = items.iter().filter(|item| **item != own).collect();
    assert!(records.iter().all(|item| item["data"] == text("idempotency")));
    let completed: Vec<_> =
        records.iter().filter(|item| item["status"] == text("completed")).collect();
    assert_eq!(completed.len(), 2);
    assert!(completed.iter().all(|item| item.contains_key("value") && item.contains_key("ttl")));
}

/// Several processes set the table up at the same time, and once more when it is there.
#[tokio::test(flavor = "multi_thread")]
async fn setting_up_is_safe_from_several_processes_and_changes_nothing_that_is_there() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let stores = futures_util::future::join_all(
        (0..4).map(|_| reserved("a").endpoint(emulator.endpoint()).create(true).connect()),
    );
    for store in stores.await {
        store.unwrap().create().await.unwrap();
    }
    // the index comes to a table that has none
    let without =
        DynamoDbStore::builder("later").unwrap().endpoint(emulator.endpoint()).create(true);
    let without = without.connect().await.unwrap();
    Caller::new(&key("k")).acquire(&without).await;
    let with = DynamoDbStore::builder("later").unwrap().index("unsettled").unwrap();
    let with = with.build(without.client().clone());
    with.create().await.unwrap();
    assert!(with.lookup(&key("k")).await.unwrap().is_some());
    let findings = with.examine().await.unwrap();
    assert!(findings.iter().any(|finding| finding.subject == "the list index is there"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_another_key_or_time_to_live_is_refused_with_its_names() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let store = reserved("a").endpoint(emulator.endpoint()).create(true).connect().await.unwrap();
    let other = DynamoDbStore::builder("orders").unwrap().build(store.client().clone());
    let error = other.create().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("`key` and `data`"), "{error}");
    let error = Caller::new(&key("k")).claim(&other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("partition key"), "{error}");

    let other = reserved("a").attribute(Attribute::DeleteAfter, "expires").unwrap();
    let error = other.build(store.client().clone()).create().await.unwrap_err();
    assert!(error.to_string().contains("time to live"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_sees_what_is_missing_and_what_is_fine() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let store = reserved("a").endpoint(emulator.endpoint()).create(true).connect().await.unwrap();
    let findings = store.examine().await.unwrap();
    let hazards = findings.iter().filter(|finding| finding.severity == Severity::Hazard);
    assert_eq!(hazards.count(), 0, "{findings:?}");
    let subjects: Vec<_> = findings.iter().map(|finding| finding.subject.as_str()).collect();
    for subject in
        ["the time to live is set on `ttl`", "the list index is there", "the table is active"]
    {
        assert!(subjects.contains(&subject), "{subject} in {subjects:?}");
    }
    let missing = DynamoDbStore::builder("nowhere").unwrap().build(store.client().clone());
    let findings = missing.examine().await.unwrap();
    assert_eq!((findings.len(), findings[0].severity), (1, Severity::Hazard), "{findings:?}");
}

#[test]
fn the_template_names_everything_that_the_table_needs() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let runtime = crate::support::runtime();
    let store =
        runtime.block_on(reserved("a").endpoint(emulator.endpoint()).create(true).connect());
    let described = store.unwrap().describe();
    for part in [
        "TableName: 'orders'",
        "- { AttributeName: 'key', KeyType: HASH }",
        "- { AttributeName: 'data', KeyType: RANGE }",
        "IndexName: 'open'",
        "AttributeName: 'ttl'\n        Enabled: true",
        "aws dynamodb create-table",
        "--key-schema 'AttributeName=key,KeyType=HASH' 'AttributeName=data,KeyType=RANGE'",
        "update-time-to-live --table-name 'orders'",
        "'Enabled=true,AttributeName=ttl'",
    ] {
        assert!(described.contains(part), "{part} in\n{described}");
    }
}
