//! What moves when, and what never shows.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]

mod cardinality;
mod documented;
mod every_event;
mod executors;
mod support;
mod sweeps;
