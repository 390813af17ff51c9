#![doc = include_str!("../README.md")]

mod account;
mod app;
mod arguments;
mod backing;
mod charge;
mod checkout;
mod ledger;
mod metrics;
mod problem;
mod rate_limit;
mod sandbox;
mod service;
mod source;
mod webhooks;

pub use arguments::Arguments;
pub use rate_limit::RateLimit;
pub use service::Service;
pub use webhooks::Secret;
