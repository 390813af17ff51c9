//! Tells another service of charges: events wait in an outbox until they are delivered, or given up.
//!
//! Webhooks of the Standard Webhooks specification, <https://www.standardwebhooks.com>: signed, at least
//! once, in no order, and with the same `webhook-id` in each try, so that the receiver can tell a
//! repetition.

mod endpoint;
mod event;
mod outbox;
mod secret;
mod sender;
mod signature;

pub(crate) use endpoint::Endpoint;
pub(crate) use event::Event;
pub(crate) use outbox::{MemoryOutbox, Outbox, PostgresOutbox};
pub use secret::Secret;
pub(crate) use sender::Sender;
