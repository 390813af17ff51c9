use std::fs;

use super::Session;
use crate::{
    backend::{Backend, on_backend, on_every_backend},
    records::{claimed, fill, until_abandoned, with_store},
    support::{idempotency, told},
};

on_every_backend!(
    an_abandoned_attempt_is_settled_as_the_operator_says,
    nothing_is_settled_that_is_not_abandoned_or_not_what_was_seen,
    a_response_is_read_from_a_file_or_the_standard_input,
);

fn an_abandoned_attempt_is_settled_as_the_operator_says(backend: &Backend) {
    with_store(backend, |store| async move {
        for key in ["one", "two", "three"] {
            claimed(&store, key, std::time::Duration::from_millis(1)).await;
        }
        until_abandoned(&store, 3).await;
    });
    let folder = tempfile::Builder::new().prefix("idempotency-cli-test-").tempdir().unwrap();
    let file = folder.path().join("response");
    fs::write(&file, "HTTP/1.1 201 Created\r\nlocation: /ch_1\r\n\r\n{}").unwrap();
    let mut session = Session::new(backend);
    let as_http = format!("--response {} --as http --retention 48h", file.display());
    session.call(&format!("settle URL one --scope shop {as_http} --yes"));
    session.call("lookup URL one --scope shop");
    session.call("settle URL two --scope shop --failed --yes");
    session.call("lookup URL two --scope shop");
    session.call("settle URL three --scope shop --not-started --yes");
    session.call("lookup URL three --scope shop");
    session.golden("settle");
}

fn nothing_is_settled_that_is_not_abandoned_or_not_what_was_seen(backend: &Backend) {
    fill(backend);
    let mut session = Session::new(backend);
    for call in [
        // nobody to ask
        "settle URL lost --scope shop --failed",
        "settle URL lost --scope shop --failed --attempt 1:00000000 --yes",
        "settle URL running --scope shop --failed --yes",
        "settle URL paid --scope shop --not-started --yes",
        "settle URL failed --scope shop --failed --yes",
        "settle URL missing --scope shop --failed --yes",
        "settle URL lost --scope shop --yes",
        "settle URL lost --failed --yes",
        "settle URL lost --scope shop --failed --not-started --yes",
    ] {
        assert_ne!(session.call(call).code, Some(0), "{call}");
    }
    let listed = session.call("list URL --state abandoned --format json").json();
    session.golden("settle-refused");
    // what was seen, is
    let attempt = listed["records"][0]["attempt"].as_str().unwrap();
    let call = ["settle", &backend.url, "lost", "--scope", "shop", "--failed", "--yes"];
    let settled = idempotency(&[&call[..], &["--attempt", attempt]].concat());
    assert_eq!(settled.code, Some(0), "{settled:?}");
}

fn a_response_is_read_from_a_file_or_the_standard_input(backend: &Backend) {
    fill(backend);
    let call = ["settle", &backend.url, "lost", "--scope", "shop", "--response", "-", "--yes"];
    let with = |more: &[&str], input: &[u8]| told(&[&call[..], more].concat(), input);
    let refused = with(&["--as", "value"], b"{");
    assert!(refused.code == Some(2) && refused.err.contains("no JSON"), "{refused:?}");
    let refused = with(&[], b"{}");
    assert!(refused.code == Some(2) && refused.err.contains("--as"), "{refused:?}");
    let forever = with(&["--as", "value", "--retention", "100years"], b"{}");
    assert!(forever.code == Some(2) && forever.err.contains("retention"), "{forever:?}");
    let settled = with(&["--as", "value"], br#"{"id": "ch_3"}"#);
    assert_eq!(settled.code, Some(0), "{settled:?}");
    let call = ["lookup", &backend.url, "lost", "--scope", "shop", "--response", "-"];
    assert_eq!(idempotency(&call).out, r#"{"id": "ch_3"}"#);
}
