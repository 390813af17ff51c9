//! Random programs, on the server and on the state machine that is the contract.

use idempotency_conformance::Programs;

use crate::{
    conformance::Postgres,
    support::{count, is_full, newest, server},
};

#[test]
fn random_programs_end_as_the_state_machine_says() {
    let level = "read committed";
    Programs::new(Postgres::on(server(), level)).count(count(300, 5_000)).run().unwrap();
    if is_full() {
        Programs::new(Postgres::on(newest(), level)).count(5_000).run().unwrap();
    }
}
