//! The cases, one module a subject. Which clause each one shows is said once, in `list.rs`.

mod prelude;
mod stage;

pub(crate) mod cancel;
pub(crate) mod claim;
pub(crate) mod clock;
pub(crate) mod complete;
pub(crate) mod corrupt;
pub(crate) mod executor;
pub(crate) mod fingerprint;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod late;
pub(crate) mod limits;
pub(crate) mod model;
pub(crate) mod outage;
pub(crate) mod progress;
pub(crate) mod races;
pub(crate) mod recovery;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod replay;
pub(crate) mod retention;
pub(crate) mod sweep;
pub(crate) mod takeover;
