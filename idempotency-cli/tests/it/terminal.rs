//! What is asked at a terminal. `script` gives the program one.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::{backend::redis, records::fill, support::idempotency};

fn at_a_terminal(call: &str, typed: &str) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_idempotency");
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &format!("{program} {call}"), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn an_operator_is_asked_after_having_seen_what_will_be_done() {
    let backend = redis();
    fill(&backend);
    let url = &backend.url;
    let remove = format!("remove '{url}' paid --scope shop");
    let (code, shown) = at_a_terminal(&remove, "n\n");
    assert!(code == Some(5) && shown.contains("Remove it? [y/N]"), "{code:?} {shown}");
    assert!(shown.contains("executes AGAIN"), "{shown}");
    let settle = format!("settle '{url}' lost --scope shop --failed");
    let (code, shown) = at_a_terminal(&settle, "\n");
    assert!(code == Some(5) && shown.contains("Settle it so? [y/N]"), "{code:?} {shown}");
    let listed = idempotency(&["list", url, "--format", "json"]).json();
    assert_eq!(listed["records"].as_array().unwrap().len(), 5);
    let (code, shown) = at_a_terminal(&remove, "y\n");
    assert!(code == Some(0) && shown.contains("removed"), "{code:?} {shown}");
    let (code, shown) = at_a_terminal(&settle, "yes\n");
    assert!(code == Some(0) && shown.contains("as attempt 2"), "{code:?} {shown}");
}
