//! The cases that compare with the whole contract at once notice as well, each what it is for.

use idempotency_conformance::{Outcome, Suite};

use super::{catalogue::all, table::run};

/// What the case comes to on the mutant, if it fails.
fn failure_of(mutant: &str, case: &str) -> Option<String> {
    let mutants = all();
    let mutant = mutants.iter().find(|known| known.name == mutant).unwrap();
    let suite: Suite = (mutant.suite)().select(|_| true).filter(case).seed(3);
    let report = run(&suite);
    report.cases().iter().find_map(|case| match case.outcome() {
        Outcome::Failed(detail) => Some(detail.clone()),
        _ => None,
    })
}

#[test]
fn random_programs_find_what_no_race_is_needed_for() {
    for mutant in [
        "a stale completion is accepted",
        "an older renewal brings back its checkpoint",
        "not started by attempt 2 removes the record",
        "a second release replaces the reason",
        "an expired release is still there",
        "a completion ignores the fingerprint",
    ] {
        assert!(failure_of(mutant, "model::random").is_some(), "{mutant} lives");
    }
}

#[test]
fn a_failing_program_is_made_as_small_as_it_can_be() {
    let detail = failure_of("a restored record is not reported", "model::random").unwrap();
    let program = detail.split("the program ").nth(1).unwrap();
    let program = program.split(": expected").next().unwrap();
    let steps: Vec<serde_json::Value> = serde_json::from_str(program).unwrap();
    assert_eq!(steps.len(), 1, "{program}");
}

#[test]
fn concurrent_histories_find_what_only_a_race_shows() {
    for mutant in [
        "check, then act",
        "reads lag one write behind",
        "a completion removes the record and writes it later",
        "a second claim overwrites the first",
    ] {
        assert!(failure_of(mutant, "history::what_concurrent").is_some(), "{mutant} lives");
    }
}
