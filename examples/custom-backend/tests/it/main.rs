//! The store of this example keeps the contract, and keeps its records across a restart.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod restart;
