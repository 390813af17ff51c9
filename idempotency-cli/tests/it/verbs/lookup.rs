use std::fs;

use super::Session;
use crate::{
    backend::{Backend, on_backend, on_every_backend},
    records::{fill, http_answer, value_answer},
    support::idempotency,
};

on_every_backend!(
    a_record_is_shown_in_every_state_without_its_content,
    answers_and_checkpoints_are_written_where_they_are_wanted,
);

fn a_record_is_shown_in_every_state_without_its_content(backend: &Backend) {
    fill(backend);
    let mut session = Session::new(backend);
    for key in ["paid", "value", "failed", "running", "lost"] {
        session.call(&format!("lookup URL {key} --scope shop"));
    }
    let ran = session.call("lookup URL paid --scope shop --format json");
    let record = ran.json();
    assert_eq!(
        (&record["state"], &record["response"]["status"]),
        (&"completed".into(), &201.into())
    );
    assert_eq!(record["response"]["bytes"], http_answer().as_stored().len());
    // another scope, and nobody's
    assert_eq!(session.call("lookup URL paid --scope shops").code, Some(1));
    assert_eq!(session.call("lookup URL paid --global-scope").code, Some(1));
    session.golden("lookup");
    assert!(!session.transcript.contains("ch_1"), "an answer was shown without being asked for");
}

fn answers_and_checkpoints_are_written_where_they_are_wanted(backend: &Backend) {
    fill(backend);
    let of = |key: &str, more: &[&str]| {
        let call = ["lookup", &backend.url, key, "--scope", "shop"];
        idempotency(&[&call[..], more].concat())
    };
    let message = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\
        location: /v1/charges/ch_1\r\n\r\n{\"id\":\"ch_1\"}";
    assert_eq!(of("paid", &["--response", "-"]).out, message);
    assert_eq!(of("value", &["--response", "-"]).out, r#"["ch_2",500]"#);
    assert_eq!(of("running", &["--checkpoint", "-"]).out, "step 2");
    let folder = tempfile::Builder::new().prefix("idempotency-cli-test-").tempdir().unwrap();
    let file = folder.path().join("answer");
    let ran = of("value", &["--response", file.to_str().unwrap(), "--raw"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("completed"), "{ran:?}");
    assert_eq!(&fs::read(&file).unwrap(), value_answer().as_stored());
    for (key, what) in [("lost", "--response"), ("paid", "--checkpoint")] {
        let ran = of(key, &[what, "-"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.err.contains("the record has no "), "{ran:?}");
    }
    let nowhere = folder.path().join("missing/answer");
    let ran = of("value", &["--response", nowhere.to_str().unwrap()]);
    assert!(ran.code == Some(2) && ran.err.contains("missing/answer"), "{ran:?}");
}
