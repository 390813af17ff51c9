//! The `PostgreSQL` store beside raw statements of the same width, all on one server with the same
//! driver and pools of the same size. It makes tables of its own and leaves them: use a database of
//! its own.

mod counters;
mod expiry;
mod raw;
mod throughput;

use crate::{cli::Args, report::Report};

pub(super) fn run(args: &Args) -> anyhow::Result<Report> {
    let mut report = Report::default();
    throughput::run(args, &mut report)?;
    if args.wants("wal") {
        counters::run(args, &mut report)?;
    }
    if args.wants("expiry") {
        expiry::run(args, &mut report)?;
    }
    Ok(report)
}

/// A URL with more parameters.
fn with(url: &str, parameters: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{parameters}")
}
