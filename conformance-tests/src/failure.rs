use std::{fmt, panic::Location};

use idempotency_core::StoreError;

use crate::harness::HarnessError;

/// What a case found wrong: what was done, what the contract expects, and what the store did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    what: String,
    expected: String,
    got: String,
    at: &'static Location<'static>,
}

impl Failure {
    #[track_caller]
    pub(crate) fn new(
        what: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            expected: expected.into(),
            got: got.into(),
            at: Location::caller(),
        }
    }
}

impl Failure {
    /// The same failure, with what led to it.
    pub(crate) fn because(self, cause: &str) -> Self {
        let what = format!("{}, in {cause}", self.what);
        Self { what, ..self }
    }
}

/// `what: expected this, got that (file:line of the case)`
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, expected, got, at } = self;
        let (file, line) = (at.file(), at.line());
        let file = file.rsplit_once("src/").map_or(file, |(_, file)| file);
        write!(f, "{what}: expected {expected}, got {got} ({file}:{line})")
    }
}

/// Why a case did not come to its end.
#[derive(Clone, Debug)]
pub(crate) enum Halt {
    /// It does not apply.
    Skip(String),
    /// The contract is broken.
    Fail(Failure),
}

/// What a case comes to.
pub(crate) type Verdict<T = ()> = Result<T, Halt>;

impl Halt {
    #[track_caller]
    pub(crate) fn fail(
        what: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Self::Fail(Failure::new(what, expected, got))
    }

    /// The store answered with an error where it should have answered.
    #[track_caller]
    pub(crate) fn error(what: &str, error: &StoreError) -> Self {
        Self::fail(what, "an answer", format!("the error: {error}"))
    }

    #[track_caller]
    pub(crate) fn harness(what: &str, error: &HarnessError) -> Self {
        let mut got = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            got = format!("{got}: {cause}");
            source = cause.source();
        }
        Self::fail(what, "a store to test", got)
    }
}

/// Fails unless `got` is `expected`.
#[track_caller]
pub(crate) fn same<T: PartialEq + fmt::Debug>(what: &str, got: &T, expected: &T) -> Verdict {
    if got == expected {
        return Ok(());
    }
    Err(Halt::fail(what, format!("{expected:?}"), format!("{got:?}")))
}

/// What a check came to: true is good.
#[derive(Clone, Copy)]
pub(crate) struct Holds(pub(crate) bool);

/// Fails unless the rule holds.
#[track_caller]
pub(crate) fn check(what: &str, rule: &str, holds: Holds, got: impl fmt::Debug) -> Verdict {
    if holds.0 {
        return Ok(());
    }
    Err(Halt::fail(what, rule, format!("{got:?}")))
}
