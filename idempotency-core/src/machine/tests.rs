//! The machine against the contract: every state with every operation at every deadline, judged by
//! an oracle that is written clause by clause; then random programs that must keep the invariants.

mod answers;
mod invariants;
mod operator_rules;
mod oracle;
mod programs;
mod run;
mod scenario;
mod table;
