//! Which cases catch which mutant; the table is `docs/mutants.md`.

use std::fmt::Write;

use idempotency_conformance::{CASES, Clause, Outcome, Suite};

use super::{Mutant, catalogue::all};
use crate::lab::{LabHarness, Rules};

/// Changing it may change which of the random cases catch what.
const SEED: u64 = 1;

/// A mutant and the cases that fail because of it.
struct Caught {
    name: &'static str,
    breaks: Clause,
    by: Vec<(&'static str, Clause)>,
}

/// Cases that compare with the whole contract at once catch nearly everything: they do not count.
fn counts(case: &str) -> bool {
    !case.starts_with("model::") && !case.starts_with("history::")
}

/// On one thread, so that the same seed gives the same run.
fn run(suite: &Suite) -> idempotency_conformance::Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(suite.run())
}

fn catch(mutant: &Mutant) -> Caught {
    let report = run(&(mutant.suite)().seed(SEED).quick());
    let failed = report.cases().iter().filter(|case| matches!(case.outcome(), Outcome::Failed(_)));
    let by = failed.map(|case| (case.name(), case.clause())).collect();
    Caught { name: mutant.name, breaks: mutant.breaks, by }
}

fn catch_all() -> Vec<Caught> {
    let mutants = all();
    let (front, back) = mutants.split_at(mutants.len() / 2);
    std::thread::scope(|scope| {
        let front = scope.spawn(|| front.iter().map(catch).collect::<Vec<_>>());
        let back: Vec<_> = back.iter().map(catch).collect();
        front.join().unwrap().into_iter().chain(back).collect()
    })
}

fn document(caught: &[Caught]) -> String {
    let mut text = String::from(HEAD);
    let clauses = Clause::ALL.len();
    writeln!(text, "{} mutants, {} cases, {clauses} clauses.\n", caught.len(), CASES.len())
        .unwrap();
    text.push_str(
        "| clause | mutant | caught by the clause's own cases | and by |\n|---|---|---|---|\n",
    );
    for Caught { name, breaks, by } in caught {
        let (own, others): (Vec<_>, Vec<_>) =
            by.iter().partition(|(case, clause)| clause == breaks && counts(case));
        let own: Vec<_> = own.iter().map(|(case, _)| format!("`{case}`")).collect();
        let others = match others.len() {
            0 => "nothing else".to_owned(),
            1 => "1 other case".to_owned(),
            count => format!("{count} other cases"),
        };
        writeln!(text, "| {breaks} | {name} | {} | {others} |", own.join(", ")).unwrap();
    }
    text
}

const HEAD: &str = "# Mutants\n\n\
    The suite is tested by stores with one fault each. The suite must fail on every one of them, with\n\
    a case of the very clause that the fault breaks. This table is written by the tests of\n\
    `idempotency-conformance` (`UPDATE_DOCS=1 cargo test -p idempotency-conformance mutant`), and a test\n\
    fails when it is out of date.\n\n";

#[test]
fn the_laboratory_store_without_a_fault_keeps_the_contract() {
    let report = run(&Suite::new(LabHarness::new(Rules::default())).seed(SEED));
    assert!(report.is_green(), "{report}");
}

#[test]
fn every_mutant_is_caught_by_its_clause_and_the_table_says_so() {
    let caught = catch_all();
    let missed: Vec<_> = caught
        .iter()
        .filter(|mutant| {
            !mutant.by.iter().any(|(case, clause)| *clause == mutant.breaks && counts(case))
        })
        .map(|mutant| format!("{} {}: only {:?}", mutant.breaks, mutant.name, mutant.by))
        .collect();
    assert!(missed.is_empty(), "mutants that live:\n{}", missed.join("\n"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/mutants.md");
    let text = document(&caught);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, text, "docs/mutants.md is out of date: run with UPDATE_DOCS=1");
}

#[test]
fn every_clause_has_a_mutant() {
    let mutants = all();
    let without = Clause::ALL.iter().filter(|clause| !mutants.iter().any(|m| m.breaks == **clause));
    assert_eq!(without.collect::<Vec<_>>(), Vec::<&Clause>::new());
}

#[test]
fn every_mutant_has_a_name_of_its_own() {
    let mut names: Vec<_> = all().iter().map(|mutant| mutant.name).collect();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
}
