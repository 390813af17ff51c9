//! Random programs, on the server and on the state machine that is the contract.

use idempotency_conformance::Programs;
use test_servers::redis::RedisServer;

use crate::{
    conformance::Single,
    support::{count, server},
};

#[test]
fn random_programs_end_as_the_state_machine_says() {
    programs_on(server(), count(300, 5_000));
}

/// Blocks, also inside of a runtime.
pub(crate) fn programs_on(server: &'static RedisServer, programs: u32) {
    Programs::new(Single(server)).count(programs).run().unwrap();
}
