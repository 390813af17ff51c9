//! The memory store beside a bare map and beside another crate's memory store.

mod expiry;
mod maps;
mod others;
mod size;
mod threads;
mod throughput;

use crate::{cli::Args, report::Report};

pub(super) fn run(args: &Args) -> anyhow::Result<Report> {
    let mut report = Report::default();
    // first, while the allocator has nothing in reserve
    if args.wants("size") {
        size::run(args, &mut report)?;
    }
    if args.wants("throughput") {
        throughput::run(args, &mut report)?;
    }
    if args.wants("maps") {
        maps::run(args, &mut report)?;
    }
    if args.wants("expiry") {
        expiry::run(args, &mut report)?;
    }
    Ok(report)
}
