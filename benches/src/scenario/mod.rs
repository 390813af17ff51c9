//! One module a kind of store, and one for HTTP over any store.

mod dynamodb;
mod http;
mod memory;
mod postgres;
mod redis;

use crate::{cli::Args, report::Report};

/// Runs what there is for the store that the URL names.
pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    if args.url.starts_with("dynamodb:") {
        return dynamodb::run(args);
    }
    let mut report = match args.url.split(':').next() {
        Some("memory") => memory::run(args)?,
        Some("postgres") => postgres::run(args)?,
        Some("redis") => redis::run(args)?,
        _ => anyhow::bail!(
            "no scenarios for this URL; there are some for `memory:`, `dynamodb:`, `postgres:` and \
             `redis:`"
        ),
    };
    http::run(args, &mut report)?;
    Ok(report)
}
