use serde::Serialize;

use super::{CaseReport, Report};

#[derive(Serialize)]
struct JsonReport<'a> {
    store: &'a str,
    seed: u64,
    passed: usize,
    failed: usize,
    skipped: usize,
    cases: Vec<JsonCase<'a>>,
}

#[derive(Serialize)]
struct JsonCase<'a> {
    name: &'a str,
    clause: &'a str,
    outcome: &'a str,
    millis: u64,
    detail: Option<&'a str>,
}

impl Report {
    /// `{store, seed, passed, failed, skipped, cases: [{name, clause, outcome, millis, detail}]}`
    pub fn to_json(&self) -> String {
        let report = JsonReport {
            store: &self.store,
            seed: self.seed,
            passed: self.passed(),
            failed: self.failed(),
            skipped: self.skipped(),
            cases: self.cases.iter().map(JsonCase::from).collect(),
        };
        // texts and numbers only: nothing in it can fail to be written
        serde_json::to_string_pretty(&report).unwrap_or_default()
    }
}

impl<'a> From<&'a CaseReport> for JsonCase<'a> {
    fn from(case: &'a CaseReport) -> Self {
        Self {
            name: case.name,
            clause: case.clause.id(),
            outcome: case.outcome.word(),
            millis: u64::try_from(case.took.as_millis()).unwrap_or(u64::MAX),
            detail: case.outcome.detail(),
        }
    }
}
