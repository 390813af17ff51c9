use super::Session;
use crate::{
    backend::{Backend, on_backend, on_every_backend},
    records::fill,
    support::idempotency,
};

on_every_backend!(a_record_is_removed_when_it_is_the_one_that_was_seen);

fn a_record_is_removed_when_it_is_the_one_that_was_seen(backend: &Backend) {
    fill(backend);
    let mut session = Session::new(backend);
    for call in [
        "remove URL paid --scope shop",
        "remove URL paid --scope shop --attempt 1:00000000 --yes",
        "lookup URL paid --scope shop",
        "remove URL paid --scope shop --yes",
        "lookup URL paid --scope shop",
        "remove URL paid --scope shop --yes",
        "remove URL lost --scope shop --yes",
        "remove URL failed --scope shop --yes",
    ] {
        session.call(call);
    }
    session.golden("remove");
    let running =
        idempotency(&["lookup", &backend.url, "running", "--scope", "shop", "--format", "json"]);
    let attempt = running.json()["attempt"].as_str().unwrap().to_owned();
    let call =
        ["remove", &backend.url, "running", "--scope", "shop", "--attempt", &attempt, "--yes"];
    assert_eq!(idempotency(&call).code, Some(0));
    let left = idempotency(&["list", &backend.url, "--keys", "--format", "json"]).json();
    assert_eq!(left["records"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left["records"][0]["key"], "value");
}
