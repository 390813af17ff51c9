//! `PostgreSQL` and `PgBouncer`.

mod bouncer;
mod program;
mod proxy;
mod server;
mod user;

pub use bouncer::{BouncerOptions, PgBouncer};
pub use program::PostgresProgram;
pub use proxy::{CommitProxy, Cut};
pub use server::{PostgresOptions, PostgresServer};
