//! Store URLs: what is understood, and what the errors say.

use idempotency::{ConnectError, IdempotencyKey, Sharing, connect};

async fn refusal(url: &str) -> String {
    match connect(url).await {
        Ok(connected) => panic!("{url} gave {connected:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_memory_url_gives_a_store_with_its_limits_and_capabilities() {
    let url = "memory:?capacity=7&max_response_bytes=100&max_checkpoint_bytes=10&namespace=test";
    let connected = connect(url).await.unwrap();
    let store = connected.store();
    let profile = store.profile();
    assert_eq!(profile.name, "memory");
    assert_eq!(profile.sharing, Sharing::Process);
    assert_eq!(profile.max_response_bytes, 100);
    assert_eq!(profile.max_checkpoint_bytes, 10);
    assert!(format!("{store:?}").contains("capacity: 7"), "{store:?}");
    assert!(connected.admin().is_some() && connected.sweep().is_some());
    assert!(connect("memory:").await.is_ok() && connect("memory:/").await.is_ok());
}

/// Kind of fault: two handles that look like one store and are not (H-60). A URL gives a fresh store
/// each time, and what it gives is what has to be cloned.
#[tokio::test]
async fn every_memory_url_is_a_store_of_its_own_and_clones_share() {
    let key = IdempotencyKey::new("scope", "key").unwrap();
    let first = connect("memory:?namespace=a").await.unwrap();
    let second = connect("memory:?namespace=a").await.unwrap();
    let token = idempotency::ClaimToken::random().unwrap();
    let claim = idempotency::ClaimRequest {
        key: &key,
        fingerprint: idempotency::Fingerprint::of_bytes("x"),
        token,
        lease: idempotency::Lease::DEFAULT,
        retention: idempotency::Retention::DEFAULT,
        takeover: idempotency::Takeover::Allow,
    };
    let _ = first.store().claim(claim).await.unwrap();
    assert!(first.clone().store().lookup(&key).await.unwrap().is_some());
    assert!(second.store().lookup(&key).await.unwrap().is_none());
}

#[tokio::test]
async fn a_refused_url_names_the_part_and_what_is_allowed() {
    let cases = [
        ("memory://host", "host", "only parameters"),
        ("memory:somewhere", "path", "only parameters"),
        ("memory:#here", "fragment", "only parameters"),
        ("memory:?capacity=0", "`capacity`", "from 1"),
        ("memory:?capacity=many", "`capacity`", "whole number"),
        ("memory:?capacity=-1", "`capacity`", "whole number"),
        ("memory:?capacity=1&capacity=2", "`capacity`", "once"),
        ("memory:?max_response_bytes=1k", "`max_response_bytes`", "bytes"),
        ("memory:?namespace=a%20b", "`namespace`", "a-z"),
        ("memory:?namespace=", "`namespace`", "1 to 64"),
        ("memory:?capcity=1", "`capcity`", "`capacity`"),
    ];
    for (url, part, allowed) in cases {
        let error = refusal(url).await;
        assert!(error.contains(part), "{url}: {error}");
        assert!(error.contains(allowed), "{url}: {error}");
    }
}

/// Kind of fault: a secret in a log line. Whatever is wrong with the URL, what could be a password
/// does not come back in the error.
#[tokio::test]
async fn no_error_shows_a_password() {
    let urls = [
        "memory://user:hunter2@host/",
        "memory:hunter2",
        "redsi://user:hunter2@host",
        "memory:?capacity=hunter2",
        "memory:?password=hunter2",
        "memory:?namespace=hunter2%20",
        "memory:#hunter2",
        "//user:hunter2@host",
        "memory://user:hunter2@:x",
    ];
    for url in urls {
        let error = connect(url).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{url}: {shown}");
    }
    assert!(matches!(connect("redsi://h").await.unwrap_err(), ConnectError::UnknownScheme { .. }));
}
