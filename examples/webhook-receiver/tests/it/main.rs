//! The receiver over real sockets, alone and with the payments API that sends to it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "in tests a failure is a panic")]

mod both_ends;
mod crash;
mod deliveries;
mod lossy;
mod program;
mod shutdown;
mod support;
mod uploads;
