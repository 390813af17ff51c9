use std::fmt;

use super::step::Program;
use crate::failure::Halt;

/// A program on which a store differs from the state machine.
///
/// `Debug` is the same text as `Display`: a test that unwraps is readable.
pub struct Counterexample {
    store: &'static str,
    seed: u64,
    steps: Vec<String>,
    what: String,
}

impl Counterexample {
    pub(super) fn new(
        store: &'static str,
        seed: u64,
        program: Option<&Program>,
        halt: &Halt,
    ) -> Self {
        let what = match halt {
            Halt::Fail(failure) => failure.to_string(),
            Halt::Skip(reason) => reason.clone(),
        };
        let steps = program.into_iter().flatten().map(|step| format!("{step:?}")).collect();
        Self { store, seed, steps, what }
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, seed, steps, what } = self;
        write!(f, "{store}, seed {seed}: {what}")?;
        for (number, step) in steps.iter().enumerate() {
            write!(f, "\n  {number}: {step}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Counterexample {}
