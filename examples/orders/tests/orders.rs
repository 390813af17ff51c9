//! The program as a user runs it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

fn orders(arguments: &[&str], input: &str) -> (Output, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_orders"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // a program that does not read its input may close it first
    let _closed = program.stdin.take().unwrap().write_all(input.as_bytes());
    let output = program.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (output, text)
}

/// The outcome and the attempt of each line.
fn outcomes(text: &str) -> Vec<String> {
    let table = text.split("The ledger").next().unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    table.lines().skip(1).map(words).filter(|w| w.len() > 3).map(|w| w[2..].join(" ")).collect()
}

#[test]
fn the_sample_runs_each_intent_once() {
    let (output, text) = orders(&[], "");
    assert!(output.status.success(), "{text}");
    assert!(text.ends_with("19 lines, 6 intents with an effect, 6 effects\n"), "{text}");
    let outcomes = outcomes(&text);
    let starts = |line: usize, with: &str| {
        assert!(outcomes[line - 1].starts_with(with), "line {line}: {}", outcomes[line - 1]);
    };
    starts(1, "executed 1 line 1");
    starts(2, "replayed 1 line 1");
    starts(3, "mismatch");
    starts(4, "executed 1 line 2");
    let parallel = &outcomes[4..7];
    assert_eq!(parallel.iter().filter(|o| o.starts_with("executed 1")).count(), 1, "{text}");
    assert_eq!(parallel.iter().filter(|o| o.starts_with("in progress 1")).count(), 2, "{text}");
    starts(8, "replayed 1 line 3");
    starts(9, "executed - declined");
    starts(10, "replayed - declined");
    starts(11, "executed - unavailable");
    starts(12, "executed 2 line 4");
    starts(13, "crashed - panicked");
    starts(14, "executed 2 line 5");
    starts(15, "replayed 2 line 5");
    starts(16, "crashed - cut off");
    starts(17, "in progress 1");
    starts(18, "executed 2 line 6");
    starts(19, "replayed 2 line 6");
}

#[test]
fn bad_lines_are_named_and_the_others_run() {
    let good = r#"{"scope": "m", "key": "k", "body": {"item": "tea", "amount": 1}}"#;
    let empty_key = r#"{"scope": "m", "key": "", "body": {"item": "tea", "amount": 1}}"#;
    let input = format!("{good}\nnot json\n\n{{}}\n{empty_key}\n{good}\n");
    let (output, text) = orders(&["-"], &input);
    assert_eq!(output.status.code(), Some(1));
    let outcomes = outcomes(&text);
    assert!(outcomes[0].starts_with("executed"), "{text}");
    assert!(outcomes[1].starts_with("refused - not an operation: expected"), "{text}");
    assert!(outcomes[2].starts_with("refused - not an operation: missing field"), "{text}");
    assert!(outcomes[3].starts_with("refused - an empty key is refused"), "{text}");
    assert!(outcomes[4].starts_with("replayed"), "{text}");
}

#[test]
fn wrong_arguments_say_what_is_wrong() {
    for (arguments, named) in [
        (&["no-such-file.jsonl"][..], "no-such-file.jsonl"),
        (&["--store", "mongodb:"], "mongodb"),
        (&["--lease-ms", "0"], "--lease-ms"),
        (&["-"], "no operations"),
    ] {
        let (output, _) = orders(arguments, "");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(named), "{error}");
    }
}
