use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::{CaseReport, Outcome, Report};

impl Report {
    /// The report as `JUnit` XML, one test suite with the cases in it; the clause is the class name.
    pub fn to_junit(&self) -> String {
        let mut suite = TestSuite::new(format!("idempotency conformance of {}", self.store));
        suite.add_property(("seed", self.seed.to_string().as_str()));
        suite.add_test_cases(self.cases.iter().map(test_case));
        let mut report = quick_junit::Report::new("idempotency-conformance");
        report.add_test_suite(suite);
        // names and details are escaped: nothing in it can fail to be written
        report.to_string().unwrap_or_default()
    }
}

fn test_case(case: &CaseReport) -> TestCase {
    let status = match &case.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Failed(detail) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(detail.clone());
            status
        }
        Outcome::Skipped(reason) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(reason.clone());
            status
        }
    };
    let mut test = TestCase::new(case.name, status);
    test.set_classname(case.clause.id()).set_time(case.took);
    test
}
