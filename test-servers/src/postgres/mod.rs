//! `PostgreSQL` and `PgBouncer`.

mod bouncer;
mod program;
mod server;
mod user;

pub use bouncer::{BouncerOptions, PgBouncer};
pub use program::PostgresProgram;
pub use server::{PostgresOptions, PostgresServer};
