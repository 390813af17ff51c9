//! `schema` and `doctor`: what they say depends on the store.

use crate::{
    backend::{Backend, on_backend, on_every_backend},
    records::with_store,
    support::idempotency,
};

on_every_backend!(
    the_schema_is_printed_and_applied_where_nothing_is_set_up_yet,
    the_doctor_names_the_worst_first_and_ends_with_1_for_a_hazard,
);

fn the_schema_is_printed_and_applied_where_nothing_is_set_up_yet(backend: &Backend) {
    let described = with_store(backend, |store| async move {
        store.schema().map(|schema| schema.describe().trim_end().to_owned())
    });
    let url = backend.not_set_up();
    let printed = idempotency(&["schema", &url]);
    let applied = idempotency(&["schema", &url, "--apply"]);
    // again changes nothing
    let again = idempotency(&["schema", &url, "--apply"]);
    let [(printed, code), applied, again] =
        [&printed, &applied, &again].map(|ran| (ran.out.trim_end(), ran.code));
    assert_eq!((code, applied.1, again.1), (Some(0), Some(0), Some(0)));
    assert_eq!(applied, again);
    match described {
        Some(described) => {
            let here = described.replace(Backend::TABLE, Backend::OTHER_TABLE);
            assert_eq!(printed, here);
            assert_eq!(applied.0, "the store is set up");
        }
        None => assert_eq!(printed, format!("nothing to do: {} needs no setting up", backend.name)),
    }
    assert_eq!(idempotency(&["list", &url]).code, Some(0));
}

/// The servers of these tests are not made to last: each has something to be warned of.
fn the_doctor_names_the_worst_first_and_ends_with_1_for_a_hazard(backend: &Backend) {
    let (severity, subject) = backend.finding;
    let code = Some(i32::from(severity == "HAZARD"));
    let ran = idempotency(&["doctor", &backend.url, "--format", "json"]);
    assert_eq!(ran.code, code, "{ran:?}");
    let findings = ran.json();
    let findings = findings.as_array().unwrap();
    assert!(
        findings.iter().any(|f| f["severity"] == severity && f["subject"] == subject),
        "{ran:?}"
    );
    assert_eq!(findings[0]["severity"], severity, "{ran:?}");
    let order = ["HAZARD", "warning", "fine"];
    let places = findings.iter().map(|finding| {
        assert_ne!(finding["subject"], "", "{finding}");
        order.iter().position(|word| finding["severity"] == *word).unwrap()
    });
    assert!(places.is_sorted(), "{ran:?}");
    let table = idempotency(&["doctor", &backend.url]);
    assert_eq!((table.code, table.out.lines().count()), (code, findings.len()), "{table:?}");
    assert!(table.out.lines().next().unwrap().contains(severity), "{table:?}");
    assert_eq!(idempotency(&["doctor", &backend.url, "--strict"]).code, Some(1));
}
