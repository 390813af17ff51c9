//! The store against real servers. A server that is missing is a failure, never a skip.

mod conformance;
mod failover;
mod faults;
mod foreign;
mod model;
mod operator;
mod support;
