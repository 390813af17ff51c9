//! `DynamoDB` by URL.

use idempotency::{ErrorKind, IdempotencyKey, Sharing, connect};
use test_servers::dynamodb::DynamoDbEmulator;

#[tokio::test]
async fn a_url_gives_a_store_with_its_limits_and_capabilities() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let url = emulator.url("payments");
    // the table is not there yet
    let error = connect(&url).await.unwrap_err().to_string();
    assert!(error.contains("no such table") && error.contains("create=on"), "{error}");
    let options = "create=on&region=eu-west-1&namespace=test&skew_bound_ms=250&timeout_ms=9000\
        &partition_key=key&sort_key=data&index=unsettled&max_response_bytes=100&max_checkpoint_bytes=10";
    let connected = connect(&format!("{url}&{options}")).await.unwrap();
    let store = connected.store();
    let profile = store.profile();
    assert_eq!((profile.name, profile.sharing), ("dynamodb", Sharing::Server));
    assert_eq!((profile.max_response_bytes, profile.max_checkpoint_bytes), (100, 10));
    assert_eq!(profile.skew_bound.as_millis(), 250);
    assert!(connected.admin().is_some() && connected.doctor().is_some());
    assert!(connected.schema().is_some() && connected.watch().is_none());
    let key = IdempotencyKey::new("scope", "key").unwrap();
    assert!(store.lookup(&key).await.unwrap().is_none());
    // the same table under other names
    let error = connect(&format!("{url}&timeout_ms=9000")).await.unwrap_err().to_string();
    assert!(error.contains("key is another one"), "{error}");
}

/// What an operator needs before there is a table: what to set up, and what is missing.
#[tokio::test]
async fn an_unchecked_store_tells_what_to_set_up() {
    let emulator = DynamoDbEmulator::start().unwrap();
    let url = format!("{}&timeout_ms=9000", emulator.url("payments"));
    let connected = idempotency::connect_unchecked(&url).await.unwrap();
    let schema = connected.schema().unwrap();
    assert!(schema.describe().contains("aws dynamodb create-table"), "{}", schema.describe());
    let findings = connected.doctor().unwrap().examine().await.unwrap();
    assert_eq!(findings[0].subject, "the table is missing");
    schema.create().await.unwrap();
    assert!(connect(&url).await.is_ok());
}

#[tokio::test]
async fn a_refused_url_names_the_part_and_what_is_allowed() {
    let cases = [
        ("dynamodb://ab", "host", "3 to 255"),
        ("dynamodb:", "host", "dynamodb://payments"),
        ("dynamodb://table:8000", "host", "table name"),
        ("dynamodb://user@table", "host", "table name"),
        ("dynamodb://table/path", "host", "table name"),
        ("dynamodb://table?endpoint=localhost:8000", "`endpoint`", "http://"),
        ("dynamodb://table?skew_bound_ms=0", "`skew_bound_ms`", "from 1"),
        ("dynamodb://table?timeout_ms=soon", "`timeout_ms`", "whole number"),
        ("dynamodb://table?create=maybe", "`create`", "`on`"),
        ("dynamodb://table?partition_key=format", "`partition_key`", "no other attribute"),
        ("dynamodb://table?index=a", "`index`", "3 to 255"),
        ("dynamodb://table?namespace=a%20b", "`namespace`", "a-z"),
        ("dynamodb://table?regoin=eu-west-1", "`regoin`", "`region`"),
    ];
    for (url, part, allowed) in cases {
        let error = connect(url).await.unwrap_err().to_string();
        assert!(error.contains(part), "{url}: {error}");
        assert!(error.contains(allowed), "{url}: {error}");
    }
}

/// Without the feature there is neither TLS nor a credential chain.
#[cfg(not(feature = "aws-config"))]
#[tokio::test]
async fn without_an_endpoint_the_error_names_the_feature() {
    for url in ["dynamodb://table?region=eu-west-1", "dynamodb://table?endpoint=https://localhost"]
    {
        let error = connect(url).await.unwrap_err().to_string();
        assert!(error.contains("`aws-config`") && error.contains("without an endpoint"), "{error}");
    }
}

/// Nobody listens.
#[tokio::test]
async fn an_endpoint_that_cannot_be_reached_is_an_error_without_effect() {
    let url = "dynamodb://table?endpoint=http://127.0.0.1:1&timeout_ms=1000";
    let idempotency::ConnectError::Store(error) = connect(url).await.unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.effect(), idempotency::Effect::None);
}
