//! What a run came to, as text, JSON and `JUnit`.

mod json;
mod junit;
mod text;

use std::time::Duration;

use crate::clause::Clause;

/// What a run of the suite came to.
#[derive(Clone, Debug)]
#[must_use = "a report that nobody looks at proves nothing"]
pub struct Report {
    pub(crate) store: String,
    pub(crate) seed: u64,
    pub(crate) cases: Vec<CaseReport>,
}

/// What one case came to.
#[derive(Clone, Debug)]
pub struct CaseReport {
    pub(crate) name: &'static str,
    pub(crate) clause: Clause,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
}

/// What a case came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store keeps the clause, as far as this case can tell.
    Passed,
    /// The store breaks it: what was done, expected and got.
    Failed(String),
    /// The case does not apply to this store or this harness: why.
    Skipped(String),
}

impl CaseReport {
    /// The case.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The clause it shows.
    pub const fn clause(&self) -> Clause {
        self.clause
    }

    /// What it came to.
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// How long it took.
    pub const fn took(&self) -> Duration {
        self.took
    }
}

impl Outcome {
    /// `passed`, `failed` or `skipped`
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
        }
    }

    /// Why it is not passed.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Passed => None,
            Self::Failed(detail) | Self::Skipped(detail) => Some(detail),
        }
    }
}

impl Report {
    /// The name in the store's profile.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// Makes the run again: see [`Suite::seed`](crate::Suite::seed).
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// What each case came to, in the order of the list.
    pub fn cases(&self) -> &[CaseReport] {
        &self.cases
    }

    /// Whether no case failed and at least one passed: a run of nothing proves nothing.
    pub fn is_green(&self) -> bool {
        self.count("failed") == 0 && self.count("passed") > 0
    }

    /// How many passed.
    pub fn passed(&self) -> usize {
        self.count("passed")
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.count("failed")
    }

    /// How many do not apply.
    pub fn skipped(&self) -> usize {
        self.count("skipped")
    }

    fn count(&self, word: &str) -> usize {
        let cases = self.cases.iter();
        cases.filter(|case| case.outcome.word() == word).count()
    }
}
