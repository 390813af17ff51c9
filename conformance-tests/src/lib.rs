#![doc = include_str!("../README.md")]

mod answer;
mod caller;
mod case;
mod cases;
mod clause;
mod erased;
mod failure;
mod harness;
mod history;
mod list;
mod macros;
mod model;
mod programs;
mod progress;
mod proxy;
mod report;
mod script;
mod subject;
mod suite;

pub use cases::{CASES, Case};
pub use clause::{Clause, UnknownClause};
pub use harness::{
    Aged, Fixture, Harness, HarnessError, Hook, RawRecord, Written, unique_namespace,
};
pub use programs::{Counterexample, Programs};
pub use proxy::{Fault, FaultProxy};
pub use report::{CaseReport, Outcome, Report};
#[doc(hidden)]
pub use suite::__run_test;
pub use suite::Suite;
