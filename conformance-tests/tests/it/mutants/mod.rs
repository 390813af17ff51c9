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
mod wholesale;

use idempotency_conformance::{Case, Clause, Suite};

use crate::lab::{LabHarness, Rules};

/// A store that breaks one clause.
pub(crate) struct Mutant {
    /// What is wrong with it.
    name: &'static str,
    /// The clause whose own cases must notice.
    breaks: Clause,
    /// Whether its store is behind a network: then the moment decides which case it meets.
    over_a_network: bool,
    /// Makes the suite that runs against it.
    suite: Box<dyn Fn() -> Suite + Send + Sync>,
}

impl Mutant {
    /// A laboratory store with some rules replaced.
    fn of(name: &'static str, breaks: Clause, replace: fn(&mut Rules)) -> Self {
        let suite = Box::new(move || {
            let mut rules = Rules::default();
            replace(&mut rules);
            Suite::new(LabHarness::new(rules)).select(counts)
        });
        Self { name, breaks, over_a_network: false, suite }
    }
}

/// The executor's cases do not come near a laboratory store. Cases that compare with the whole
/// contract at once catch nearly everything, so they do not count.
fn counts(case: &Case) -> bool {
    let module = case.name().split("::").next().unwrap_or_default();
    !["executor", "recovery", "model", "history"].contains(&module)
}
