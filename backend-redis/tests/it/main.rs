//! The store against real servers. A server that is missing is a failure, never a skip.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod model;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod support;
#[cfg(test)]
mod transport;
