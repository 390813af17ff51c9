//! The runner, on stores that behave and on stores that do not.

use std::time::Duration;

use idempotency_conformance::{
    CASES, Clause, Fixture, Harness, HarnessError, Hook, Outcome, Report, Suite, unique_namespace,
};
use idempotency_core::{Connected, ManualClock, State, StoreProfile, machine};

use crate::lab::{LabHarness, Rules, Steps};

fn laboratory() -> Suite {
    Suite::new(LabHarness::new(Rules::default())).seed(1)
}

fn with_steps(steps: Steps) -> Suite {
    Suite::new(LabHarness::new(Rules { steps, ..Rules::default() })).seed(1)
}

/// A laboratory that takes its time, fails to give a store, or leaves something out.
struct Odd {
    laboratory: LabHarness,
    broken: bool,
    leaves_out: &'static [Hook],
}

impl Odd {
    fn new() -> Self {
        let laboratory = LabHarness::new(Rules::default());
        Self { laboratory, broken: false, leaves_out: &[] }
    }
}

impl Harness for Odd {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        if self.broken {
            return Err("connection refused".into());
        }
        self.laboratory.fresh().await
    }

    fn profile(&self) -> StoreProfile {
        self.laboratory.profile()
    }

    fn leaves_out(&self) -> &'static [Hook] {
        self.leaves_out
    }
}

fn details(report: &Report) -> Vec<(&str, &str)> {
    let cases = report.cases().iter();
    let told = cases.filter_map(|case| Some((case.name(), case.outcome().detail()?)));
    told.collect()
}

#[test]
fn every_clause_has_a_case_and_every_name_is_there_once() {
    for clause in Clause::ALL {
        assert!(CASES.iter().any(|case| case.clause() == *clause), "{clause}");
        assert_eq!(clause.id().parse(), Ok(*clause));
    }
    let names: std::collections::HashSet<_> =
        CASES.iter().map(idempotency_conformance::Case::name).collect();
    assert_eq!(names.len(), CASES.len());
    assert!(CASES.len() >= 70);
}

/// Clauses of the contract's page, in the page's order: the suite knows no other ones.
#[test]
fn the_clauses_are_those_of_the_contract() {
    let page = include_str!("../../../docs/contract.md");
    let defined = page.lines().filter_map(|line| line.strip_prefix("- **")?.get(..3));
    let mut defined: Vec<_> = defined.filter(|id| id.starts_with('C')).collect();
    defined.sort_unstable();
    let known: Vec<_> = Clause::ALL.iter().map(|clause| clause.id()).collect();
    assert_eq!(known, defined);
}

#[tokio::test]
async fn a_filter_takes_names_and_clauses() {
    let by_name = laboratory().filter("takeover::").run().await;
    assert!(by_name.cases().iter().all(|case| case.name().starts_with("takeover::")));
    let by_clause = laboratory().filter("c22").run().await;
    assert_eq!(by_clause.cases().len(), 2);
    let nothing = laboratory().filter("nothing of this name").run().await;
    assert!(!nothing.is_green(), "a run of nothing proves nothing");
}

/// Kind of fault: a missing server turns a suite green.
#[tokio::test]
async fn a_store_that_cannot_be_had_is_a_failure_and_never_a_skip() {
    let broken = Odd { broken: true, ..Odd::new() };
    let report = Suite::new(broken).filter("complete").run().await;
    assert_eq!((report.passed(), report.skipped()), (0, 0));
    assert!(details(&report).iter().all(|(_, detail)| detail.contains("connection refused")));
}

#[tokio::test]
async fn a_hook_that_is_neither_there_nor_left_out_fails_and_says_what_to_do() {
    let case = "claim::concurrent_claims_of_two_connections";
    let report = Suite::new(Odd::new()).filter(case).run().await;
    let (_, detail) = details(&report)[0];
    assert_eq!(report.failed(), 1);
    assert!(detail.contains("Harness::connect_again, or Hook::SecondConnection in"), "{detail}");
    let leaving = Odd { leaves_out: &[Hook::SecondConnection], ..Odd::new() };
    let report = Suite::new(leaving).filter(case).run().await;
    let (_, reason) = details(&report)[0];
    assert_eq!((report.failed(), report.skipped()), (0, 1));
    assert_eq!(reason, "the harness leaves out Harness::connect_again");
}

/// C29 is a SHOULD: a store may say in its profile that it forgets such tokens.
#[tokio::test]
async fn a_store_that_forgets_tokens_is_green_with_one_skip() {
    let rules = Rules {
        remembers_not_started: false,
        claim: |record, request, now| {
            let known = record.filter(|record| record.state != State::Unused);
            machine::claim(known, request, now)
        },
        ..Rules::default()
    };
    let report = Suite::new(LabHarness::new(rules)).run().await;
    assert!(report.is_green(), "{report}");
    let told = details(&report);
    let about = told.iter().filter(|(_, reason)| reason.contains("does not remember tokens"));
    assert_eq!(about.count(), 1, "{told:?}");
}

#[tokio::test]
async fn a_store_that_panics_fails_its_cases_and_the_run_goes_on() {
    let report = with_steps(Steps::Panic).filter("replay::").run().await;
    assert_eq!(
        report.cases().len(),
        CASES.iter().filter(|c| c.name().starts_with("replay::")).count()
    );
    assert_eq!(report.passed(), 0);
    assert!(details(&report)[0].1.contains("panic"), "{}", details(&report)[0].1);
}

#[tokio::test]
async fn a_failure_says_what_was_expected_and_what_came() {
    let report =
        with_steps(Steps::CheckThenAct).filter("claim::concurrent_claims_have").run().await;
    let (_, detail) = details(&report)[0];
    assert!(
        detail.starts_with("winners of 16 claims at once: expected 1, got 16 (case/claim.rs:"),
        "{detail}"
    );
    let text = report.to_string();
    assert!(text.contains("FAILED  C02 claim::concurrent_claims_have_one_winner"), "{text}");
    assert!(text.ends_with("laboratory: 0 passed, 1 failed, 0 skipped (seed 1)"), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let rules = Rules { steps: Steps::CheckThenAct, ..Rules::default() };
        let suite = Suite::new(LabHarness::new(rules)).seed(seed).filter("races::");
        let report = runtime.block_on(suite.run());
        details(&report)
            .into_iter()
            .map(|(name, detail)| (name.to_owned(), detail.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
}

#[tokio::test]
async fn json_and_junit_tell_the_same_as_the_text() {
    let report = with_steps(Steps::CheckThenAct).filter("C02").run().await;
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    // some features of the parser keep the order, some do not
    let names = |object: &serde_json::Value| {
        object.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    let keys: Vec<_> = names(&json).into_iter().collect();
    assert_eq!(keys, ["cases", "failed", "passed", "seed", "skipped", "store"]);
    assert_eq!(json["failed"], report.failed());
    assert_eq!(json["cases"].as_array().unwrap().len(), 4);
    let keys: Vec<_> = names(&json["cases"][0]).into_iter().collect();
    assert_eq!(keys, ["clause", "detail", "millis", "name", "outcome"]);
    let junit = report.to_junit();
    assert!(junit.contains("tests=\"4\""), "{junit}");
    assert_eq!(junit.matches("<failure").count(), report.failed(), "{junit}");
}

/// A clock that all cases share, moved through the harness: nothing is waited for either.
struct Moved {
    laboratory: LabHarness,
    clock: ManualClock,
}

impl Harness for Moved {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let namespace = unique_namespace();
        let store = self.laboratory.connect_with(&namespace, &self.clock);
        Ok(Fixture::new(store, namespace))
    }

    fn profile(&self) -> StoreProfile {
        self.laboratory.profile()
    }

    fn leaves_out(&self) -> &'static [Hook] {
        Hook::ALL
    }

    async fn elapse(&self, duration: Duration) {
        self.clock.advance(duration);
    }
}

#[tokio::test]
async fn a_harness_that_moves_a_clock_keeps_the_time_of_the_cases() {
    let moved = Moved { laboratory: LabHarness::new(Rules::default()), clock: ManualClock::new() };
    let report = Suite::new(moved).parallel(1).run().await;
    assert!(report.is_green(), "{report}");
}

#[tokio::test]
async fn every_case_is_timed() {
    let report = laboratory().filter("heartbeat::at_most_one").run().await;
    let case = &report.cases()[0];
    assert_eq!(case.outcome(), &Outcome::Passed);
    assert!(case.took() > Duration::ZERO);
}
