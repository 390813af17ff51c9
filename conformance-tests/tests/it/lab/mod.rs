//! The laboratory: a store over a map whose every rule can be replaced by a wrong one.

mod harness;
mod rules;
mod store;

pub(crate) use harness::LabHarness;
pub(crate) use rules::{Rules, Steps};
