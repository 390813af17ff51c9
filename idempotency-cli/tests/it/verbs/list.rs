use std::collections::BTreeSet;

use super::Session;
use crate::{
    backend::{Backend, on_backend, on_every_backend},
    records::fill,
    support::{Order, idempotency},
};

on_every_backend!(records_are_listed_by_state_scope_and_age, pages_together_show_every_record_once,);

fn records_are_listed_by_state_scope_and_age(backend: &Backend) {
    fill(backend);
    let mut session = Session::new(backend);
    for call in [
        "list URL",
        "list URL --keys",
        "list URL --state in-progress --keys",
        "list URL --state abandoned --keys",
        "list URL --state failed --keys",
        "list URL --state completed --keys",
        "list URL --scope shop --state abandoned --older-than 1ms",
        "list URL --scope shops",
        "list URL --global-scope",
        "list URL --older-than 1h",
        "list URL --older-than yesterday",
        "list URL --state lost",
    ] {
        session.call_in(call, Order::OfLines);
    }
    session.call("list URL --state abandoned --format json");
    session.call("list URL --older-than 1h --format json");
    session.golden("list");
}

fn pages_together_show_every_record_once(backend: &Backend) {
    fill(backend);
    let call = ["list", &backend.url, "--limit", "2", "--keys", "--format", "json"];
    let mut keys = Vec::new();
    let mut page = None::<String>;
    loop {
        let rest = page.iter().flat_map(|page| ["--page", page]);
        let arguments: Vec<_> = call.into_iter().chain(rest).collect();
        let listed = idempotency(&arguments).json();
        let records = listed["records"].as_array().unwrap();
        keys.extend(records.iter().map(|record| record["key"].as_str().unwrap().to_owned()));
        match listed["next"].as_str() {
            Some(next) => page = Some(next.to_owned()),
            None => break,
        }
        assert!(keys.len() <= 5, "{keys:?}");
    }
    assert_eq!(keys.len(), 5, "{keys:?}");
    let expected = BTreeSet::from(["failed", "lost", "paid", "running", "value"].map(String::from));
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), expected);
    // the same with all pages at once
    let all = idempotency(&[&call[..], &["--all"]].concat());
    let pages =
        all.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert_eq!(pages.map(|page| page["records"].as_array().unwrap().len()).sum::<usize>(), 5);
    // people are told how to go on
    let table = idempotency(&["list", &backend.url, "--limit", "2"]);
    assert!(table.err.starts_with("there is more: --page "), "{table:?}");
    let wrong = idempotency(&["list", &backend.url, "--page", "not one"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("page"), "{wrong:?}");
}
