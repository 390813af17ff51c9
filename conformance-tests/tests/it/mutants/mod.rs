//! Stores with one fault each. Every one must be caught by the cases of the clause it breaks.

mod catalogue;
mod claims;
mod clocks;
mod completions;
mod deliveries;
mod executors;
mod helpers;
mod leases;
mod places;
mod records;
mod releases;
mod table;

use idempotency_conformance::{Clause, Suite};

use crate::lab::{LabHarness, Rules};

/// A store that breaks one clause.
pub(crate) struct Mutant {
    /// What is wrong with it.
    name: &'static str,
    /// The clause whose own cases must notice.
    breaks: Clause,
    /// Makes the suite that runs against it.
    suite: Box<dyn Fn() -> Suite + Send + Sync>,
}

impl Mutant {
    /// A laboratory store with some rules replaced.
    fn of(name: &'static str, breaks: Clause, replace: fn(&mut Rules)) -> Self {
        let suite = Box::new(move || {
            let mut rules = Rules::default();
            replace(&mut rules);
            Suite::new(LabHarness::new(rules))
        });
        Self { name, breaks, suite }
    }
}
