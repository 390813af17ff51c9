use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use idempotency_core::{Clock, SystemClock};

use crate::{
    cases::{CASES, Case},
    erased::ErasedHarness,
    failure::{Halt, Verdict},
    harness::Harness,
    progress::Progress,
    report::{CaseReport, Outcome, Report},
    subject::{Effort, Subject},
};

/// No case may take longer: a store that hangs fails, and the run goes on.
const LONGEST_CASE: Duration = Duration::from_mins(1);

/// A run of the cases against one store.
///
/// ```
/// # async fn example(harness: impl idempotency_conformance::Harness) {
/// use idempotency_conformance::Suite;
///
/// let report = Suite::new(harness).filter("lease").seed(7).run().await;
/// println!("{report}");
/// assert!(report.is_green());
/// # }
/// ```
#[must_use = "a suite does nothing until it is run"]
pub struct Suite {
    harness: Arc<dyn ErasedHarness>,
    filter: String,
    selected: fn(&Case) -> bool,
    seed: u64,
    effort: Effort,
    parallel: usize,
    progress: bool,
}

impl Suite {
    /// All cases, at the default counts, with a random seed, 16 at a time.
    pub fn new(harness: impl Harness) -> Self {
        Self {
            harness: Arc::new(harness),
            filter: String::new(),
            selected: |_| true,
            seed: fastrand::u64(..),
            effort: Effort::Usual,
            parallel: 16,
            progress: false,
        }
    }

    /// Only the cases whose name contains `filter`, or whose clause it is: `lease`, `C20`.
    pub fn filter(self, filter: impl Into<String>) -> Self {
        let filter = filter.into();
        Self { filter, ..self }
    }

    /// Only the cases that `selected` picks, out of those that pass the filter.
    pub fn select(self, selected: fn(&Case) -> bool) -> Self {
        Self { selected, ..self }
    }

    /// Keys, tokens, contents and programs are drawn from this. The report names the seed.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Five times as many rounds.
    pub fn thorough(self) -> Self {
        Self { effort: Effort::Thorough, ..self }
    }

    /// A tenth of the rounds: enough to try out a harness, too few to prove a store.
    pub fn quick(self) -> Self {
        Self { effort: Effort::Quick, ..self }
    }

    /// At most so many cases at a time; one where the harness moves a clock that all cases share.
    pub fn parallel(self, cases: usize) -> Self {
        Self { parallel: cases.max(1), ..self }
    }

    /// Shows a progress bar on the standard error, when that is a terminal.
    pub fn progress(self) -> Self {
        Self { progress: true, ..self }
    }

    /// Runs every case to its end, whatever the others come to.
    pub async fn run(&self) -> Report {
        let cases: Vec<_> = CASES
            .iter()
            .enumerate()
            .filter(|(_, case)| case.matches(&self.filter) && (self.selected)(case))
            .collect();
        let progress = Progress::of(cases.len(), self.progress);
        let reports = stream::iter(cases).map(|(place, case)| async move {
            let report = self.run_case(*case).await;
            (place, report)
        });
        let reports = reports.buffer_unordered(self.parallel);
        let mut cases: Vec<_> =
            reports.inspect(|(_, report)| progress.ended(report)).collect().await;
        cases.sort_by_key(|(place, _)| *place);
        let cases = cases.into_iter().map(|(_, report)| report).collect();
        Report { store: self.harness.profile().name.to_owned(), seed: self.seed, cases }
    }

    async fn run_case(&self, case: Case) -> CaseReport {
        let clock = SystemClock::new();
        let verdict = isolated(case, Arc::clone(&self.harness), self.seed, self.effort).await;
        CaseReport {
            name: case.name(),
            clause: case.clause(),
            outcome: match verdict {
                Ok(()) => Outcome::Passed,
                Err(Halt::Skip(reason)) => Outcome::Skipped(reason),
                Err(Halt::Fail(failure)) => Outcome::Failed(failure.to_string()),
            },
            took: clock.monotonic(),
        }
    }
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite")
            .field("filter", &self.filter)
            .field("seed", &self.seed)
            .field("effort", &self.effort)
            .finish_non_exhaustive()
    }
}

/// In a task of its own: a panic of the store or the harness is the failure of one case.
async fn isolated(
    case: Case,
    harness: Arc<dyn ErasedHarness>,
    seed: u64,
    effort: Effort,
) -> Verdict {
    let work = tokio::spawn(tokio::time::timeout(LONGEST_CASE, async move {
        let subject = Subject::fresh(harness, seed_of(case, seed), effort).await?;
        case.run(&subject).await
    }));
    match work.await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(_)) => {
            Err(Halt::fail("the case", format!("an end within {LONGEST_CASE:?}"), "none"))
        }
        Err(panic) => Err(Halt::fail("the store or its harness", "no panic", panic.to_string())),
    }
}

/// Another seed for each case, the same in every run.
fn seed_of(case: Case, seed: u64) -> u64 {
    let name = case.name().bytes();
    name.fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What [`conformance_tests!`](crate::conformance_tests) puts into each `#[test]`.
///
/// # Panics
/// The case failed: that is how a test says so.
#[doc(hidden)]
pub fn __run_test(name: &str, harness: impl Harness) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let report = match runtime {
        Ok(runtime) => runtime.block_on(Suite::new(harness).exactly(name)),
        Err(error) => panic!("no runtime for the test: {error}"),
    };
    match report.outcome {
        Outcome::Passed => {}
        // declared by the store's profile, or by name in the harness: see Harness::leaves_out
        Outcome::Skipped(reason) => say_skipped(name, &reason),
        Outcome::Failed(detail) => panic!("{} is broken: {detail}", report.clause),
    }
}

/// Past the test runner, which keeps what a passing test prints to itself: a case that did not run must
/// not look like one that passed.
fn say_skipped(name: &str, reason: &str) {
    use std::io::Write;
    if let Err(error) = writeln!(std::io::stderr().lock(), "SKIPPED {name}: {reason}") {
        panic!("{name} was skipped ({reason}), and that cannot be said: {error}");
    }
}

impl Suite {
    async fn exactly(&self, name: &str) -> CaseReport {
        match CASES.iter().find(|case| case.name() == name) {
            Some(case) => self.run_case(*case).await,
            None => panic!("no case has the name {name}"),
        }
    }
}
