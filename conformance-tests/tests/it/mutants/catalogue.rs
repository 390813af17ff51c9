//! All the mutants.

use idempotency_conformance::{Clause, Suite};

use super::{
    Mutant, claims, clocks, completions, deliveries, executors, leases, places, records, releases,
};
use crate::net::{NetFault, NetHarness};

impl Mutant {
    /// A store over a network with a fault in its client; only cases about that are run.
    pub(crate) fn over_a_network(name: &'static str, breaks: Clause, fault: NetFault) -> Self {
        let module = if breaks == Clause::C45 { "cancel" } else { "outage" };
        Self {
            name,
            breaks,
            over_a_network: true,
            suite: Box::new(move || Suite::new(NetHarness(fault)).filter(module)),
        }
    }
}

/// In the order of the contract.
pub(crate) fn all() -> Vec<Mutant> {
    let lists = [
        claims::mutants(),
        clocks::mutants(),
        completions::mutants(),
        deliveries::mutants(),
        executors::mutants(),
        leases::mutants(),
        places::mutants(),
        records::mutants(),
        releases::mutants(),
    ];
    let mut all: Vec<_> = lists.into_iter().flatten().collect();
    all.sort_by_key(|mutant| mutant.breaks);
    all
}
