//! One module a kind of store.

mod memory;
mod postgres;
mod redis;

use crate::{cli::Args, report::Report};

/// Runs what there is for the store that the URL names.
pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    match args.url.split(':').next() {
        Some("memory") => memory::run(args),
        Some("postgres") => postgres::run(args),
        Some("redis") => redis::run(args),
        _ => anyhow::bail!(
            "no scenarios for this URL; there are some for `memory:`, `postgres:` and `redis:`"
        ),
    }
}
