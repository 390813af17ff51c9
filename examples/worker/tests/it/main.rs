//! The consumer in time that the test moves, and the program as a user runs it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]

mod consumer;
mod program;
mod queue;
