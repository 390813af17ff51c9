use serde::{Deserialize, Serialize};

/// Steps that are taken one after the other, on one key.
pub(crate) type Program = Vec<Step>;

/// One operation. Who, requests, responses and checkpoints are small numbers, so that they meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Claim { who: u8, request: u8, lease: Span, retention: Span, refuse: bool },
    Complete { who: u8, attempt: Number, request: u8, response: u8, retention: Span },
    Renew { who: u8, attempt: Number, sequence: u8, lease: Span, checkpoint: Option<u8> },
    Release { who: u8, attempt: Number, release: Gift },
    Lookup,
}

/// How long something lasts. What is brief is over before the next step, so that a step never
/// meets a deadline half-way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Span {
    Brief,
    Long,
}

/// The attempt that an operation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Number {
    /// The one that the record has.
    Current,
    /// This one.
    Is(u8),
}

/// What a release says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Gift {
    NotStarted,
    Failed,
    Unknown,
}

/// Programs that found something once, one a line; `Err` names the line that cannot be read.
pub(crate) fn kept() -> Result<Vec<Program>, String> {
    let lines = include_str!("regressions.jsonl").lines().filter(|line| !line.is_empty());
    let parse = |line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    lines.map(parse).collect()
}
