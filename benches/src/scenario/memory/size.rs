//! How much memory a million records take, and what is left when they have expired.

use std::time::Duration;

use idempotency::{IdempotencyStore as _, ManualClock, MemoryStore, Sweep as _};

use super::super::memory::throughput::runtime;
use crate::{
    cli::Args,
    driver::resident_bytes,
    load::{claim_and_complete, fingerprint, intent, response},
    report::{Bar, Figure, Report, Row},
};

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let clock = ManualClock::new();
    let store = filled(args.records, clock.clone())?;
    let full = resident_bytes()?;
    let at_a_million = 700.0 * f64::from(args.records) / 1e6;
    report.add(megabytes("size: process with all records", full, Some(at_a_million)));
    clock.advance(Duration::from_hours(48));
    runtime()?.block_on(async {
        while store.sweep(std::num::NonZeroU32::MAX).await?.more {}
        anyhow::ensure!(store.is_empty(), "{} are left", store.len());
        Ok(())
    })?;
    let empty = resident_bytes()?;
    report.add(megabytes("size: after they have expired", empty, None));
    Ok(())
}

/// A store with `records` completed records of 300 bytes.
pub(super) fn filled(records: u32, clock: ManualClock) -> anyhow::Result<MemoryStore> {
    let capacity = usize::try_from(records)? * 2;
    let store = MemoryStore::builder().capacity(capacity).clock(clock).build();
    let (fingerprint, response) = (fingerprint(), response());
    runtime()?.block_on(async {
        for number in 0..records {
            claim_and_complete(&store, &intent(1, number)?, fingerprint, &response).await?;
        }
        anyhow::ensure!(store.profile().expires_by_itself);
        Ok(())
    })?;
    Ok(store)
}

fn megabytes(what: &str, bytes: u64, bar: Option<f64>) -> Row {
    let megabytes = f64::from(u32::try_from(bytes / 1_000).unwrap_or(u32::MAX)) / 1e3;
    Row {
        what: what.to_owned(),
        unit: "MB",
        ours: vec![megabytes],
        other: Vec::new(),
        figure: Figure::Ours,
        bar: bar.map(Bar::AtMost),
    }
}
