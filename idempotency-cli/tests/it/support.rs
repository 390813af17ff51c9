//! Calls of the program, and golden output.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use regex::Regex;
use snapbox::{Assert, Data, Redactions, assert::DEFAULT_ACTION_ENV};

/// What a call came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_idempotency"));
    program.env_remove("NO_COLOR");
    program
}

pub(crate) fn idempotency(arguments: &[&str]) -> Ran {
    told(arguments, b"")
}

/// A call with something on its standard input, which is no terminal.
pub(crate) fn told(arguments: &[&str], input: &[u8]) -> Ran {
    let mut child = program()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // it may end without reading
    let _written = child.stdin.take().unwrap().write_all(input);
    ran(&child.wait_with_output().unwrap())
}

pub(crate) fn ran(output: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

impl Ran {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The call as a reader would see it; its lines in order where the store has none.
    pub(crate) fn transcript(&self, call: &str, order: Order) -> String {
        let mut lines: Vec<_> = self.out.lines().map(shrink).collect();
        if order == Order::OfLines && lines.len() > 1 {
            lines[1..].sort_unstable();
        }
        let err = self.err.lines().map(|line| format!("(stderr) {}", shrink(line)));
        lines.extend(err);
        let code = self.code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
        format!("$ idempotency {call}\n{}\n(exit code {code})\n\n", lines.join("\n"))
    }
}

/// Whether the lines after the first are compared in the order in which they came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    AsTheyCame,
    OfLines,
}

/// The width of a column depends on how old a record is.
fn shrink(line: &str) -> String {
    let mut words = line.split("  ").map(str::trim).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |line, word| line + "  " + word)
}

/// Compares with `tests/it/golden/NAME.txt`, with placeholders for what differs from run to run.
/// `SNAPSHOTS=overwrite` writes the file anew.
pub(crate) fn assert_golden(name: &str, transcript: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/golden/{name}.txt"));
    let mut redactions = Redactions::new();
    let patterns = [
        ("[TIME]", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
        ("[TOKEN]", r"\b\d+:(?<redacted>[0-9a-f]{8})\b"),
        (
            "[AGE]",
            r"\b(?<redacted>\d+(ms|s|m|h|days?|months?|years?)( \d+(ms|s|m|h|days?|months?|years?))*)\b",
        ),
        ("[VERSION]", r"(Redis|PostgreSQL) (?<redacted>[0-9.]+)"),
        ("[FOLDER]", r"(?<redacted>/[^ ]*/idempotency-cli-test-[^ /]+)"),
        ("[NUMBER]", r"differ by (?<redacted>\d+) ms"),
    ];
    for (placeholder, pattern) in patterns {
        redactions.insert(placeholder, Regex::new(pattern).unwrap()).unwrap();
    }
    Assert::new()
        .action_env(DEFAULT_ACTION_ENV)
        .redact_with(redactions)
        .eq(transcript, Data::read_from(&file, None));
}
