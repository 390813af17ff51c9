//! The suite against stores that keep the contract, and against stores that do not.

#[cfg(test)]
mod lab;
#[cfg(test)]
mod mutants;
#[cfg(test)]
mod net;
#[cfg(test)]
mod plain_map;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod suite;
