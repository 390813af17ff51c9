//! Which cases catch which mutant; the table is `docs/mutants.md`.

use std::{
    fmt::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

use idempotency_conformance::{CASES, Clause, Outcome, Suite};

use super::{Mutant, catalogue::all};
use crate::lab::{LabHarness, Rules};

/// Changing it may change which of the random cases catch what.
const SEED: u64 = 1;

/// A mutant and the cases that fail because of it.
struct Caught {
    name: &'static str,
    breaks: Clause,
    over_a_network: bool,
    by: Vec<(&'static str, Clause)>,
}

/// On one thread, so that the same seed gives the same run.
pub(super) fn run(suite: &Suite) -> idempotency_conformance::Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(suite.run())
}

fn catch(mutant: &Mutant) -> Caught {
    let report = run(&(mutant.suite)().seed(SEED).quick());
    let failed = report.cases().iter().filter(|case| matches!(case.outcome(), Outcome::Failed(_)));
    let by = failed.map(|case| (case.name(), case.clause())).collect();
    let Mutant { name, breaks, over_a_network, .. } = *mutant;
    Caught { name, breaks, over_a_network, by }
}

/// Two at a time; in the order of the list.
fn catch_all() -> Vec<Caught> {
    let mutants = all();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut caught = Vec::new();
        while let Some((index, mutant)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            mutants.get(index).map(|mutant| (index, mutant))
        } {
            caught.push((index, catch(mutant)));
        }
        caught
    };
    let mut caught = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut caught = work();
        caught.extend(other.join().unwrap());
        caught
    });
    caught.sort_by_key(|(index, _)| *index);
    caught.into_iter().map(|(_, caught)| caught).collect()
}

fn document(caught: &[Caught]) -> String {
    let mut text = String::from(HEAD);
    let clauses = Clause::ALL.len();
    writeln!(text, "{} mutants, {} cases, {clauses} clauses.\n", caught.len(), CASES.len())
        .unwrap();
    text.push_str(
        "| clause | mutant | caught by the clause's own cases | and by |\n|---|---|---|---|\n",
    );
    for Caught { name, breaks, over_a_network, by } in caught {
        if *over_a_network {
            writeln!(text, "| {breaks} | {name} | whichever meets it over the network | |")
                .unwrap();
            continue;
        }
        let (own, others): (Vec<_>, Vec<_>) = by.iter().partition(|(_, clause)| clause == breaks);
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
        .filter(|mutant| !mutant.by.iter().any(|(_, clause)| *clause == mutant.breaks))
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
