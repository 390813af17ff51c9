//! The store against real servers. A server that is missing is a failure, never a skip.

mod conformance;
mod model;
mod support;
