//! The store against real servers. A server that is missing is a failure, never a skip.

mod capabilities;
mod conformance;
mod faults;
mod model;
mod proxy;
mod support;
mod transactions;
