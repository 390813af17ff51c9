//! The Redis store beside the raw commands it is made of and another store, all on one server, each on
//! one connection that all clients share. The keys are left to expire: use a server of its own.

mod counters;
mod others;
mod size;
mod throughput;

use crate::{cli::Args, report::Report};

pub(super) fn run(args: &Args) -> anyhow::Result<Report> {
    let mut report = Report::default();
    throughput::run(args, &mut report)?;
    if args.wants("round trips") {
        counters::run(args, &mut report)?;
    }
    if args.wants("memory") {
        size::run(args, &mut report)?;
    }
    Ok(report)
}
