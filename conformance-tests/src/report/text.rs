use std::fmt;

use comfy_table::{ContentArrangement, Table, presets};

use super::{CaseReport, Outcome, Report};
use crate::clause::Clause;

/// A table by clause, then every failure and every skip with its reason, then the sums.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.table())?;
        for case in &self.cases {
            match &case.outcome {
                Outcome::Passed => {}
                Outcome::Failed(detail) => {
                    writeln!(f, "FAILED  {} {}\n        {detail}", case.clause, case.name)?;
                }
                Outcome::Skipped(reason) => {
                    writeln!(f, "skipped {} {}: {reason}", case.clause, case.name)?;
                }
            }
        }
        let Self { store, seed, .. } = self;
        let (passed, failed, skipped) = (self.passed(), self.failed(), self.skipped());
        write!(f, "{store}: {passed} passed, {failed} failed, {skipped} skipped (seed {seed})")
    }
}

impl Report {
    fn table(&self) -> Table {
        let mut table = Table::new();
        table
            .load_preset(presets::UTF8_HORIZONTAL_ONLY)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(["clause", "rule", "passed", "failed", "skipped", "ms"]);
        for clause in Clause::ALL {
            let cases: Vec<_> = self.cases.iter().filter(|c| c.clause == *clause).collect();
            if !cases.is_empty() {
                table.add_row(row(*clause, &cases));
            }
        }
        table
    }
}

fn row(clause: Clause, cases: &[&CaseReport]) -> [String; 6] {
    let count = |word| {
        let some = cases.iter().filter(|case| case.outcome.word() == word);
        match some.count() {
            0 => String::new(),
            count => count.to_string(),
        }
    };
    let slowest = cases.iter().map(|case| case.took.as_millis()).max();
    [
        clause.to_string(),
        clause.rule().to_owned(),
        count("passed"),
        count("failed"),
        count("skipped"),
        slowest.unwrap_or_default().to_string(),
    ]
}
