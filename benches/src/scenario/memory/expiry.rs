//! What callers notice while a million records expire at once, and how long a lock can be held.

use std::{num::NonZeroU32, time::Duration};

use idempotency::{IdempotencyStore as _, ManualClock, MemoryStore, Sweep as _};
use tokio::runtime::Builder;

use super::{size::filled, throughput::runtime};
use crate::{
    cli::Args,
    driver::Latencies,
    load::{claim, fingerprint, intent},
    report::{Bar, Figure, Report, Row},
};

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let quiet = claims(args, Expiring::Nothing)?;
    let busy = claims(args, Expiring::Everything)?;
    let growth = growth(args)?;
    let sweeps = sweeps(args)?;
    let at_most = Some(Bar::AtMost(1_000.0));
    let mut add = |what: &str, nanos: u64, bar| {
        report.add(Row {
            what: format!("expiry: {what}"),
            unit: "us",
            ours: vec![f64::from(u32::try_from(nanos).unwrap_or(u32::MAX)) / 1e3],
            other: Vec::new(),
            figure: Figure::Ours,
            bar,
        });
    };
    let p9999 = |latencies: &Latencies| latencies.wall.value_at_quantile(0.9999);
    add("look-ups, nothing expires: p99.99", p9999(&quiet.lookups), None);
    add("look-ups, nothing expires: longest", quiet.lookups.wall.max(), None);
    add("look-ups while all expire: p99.99", p9999(&busy.lookups), at_most);
    add("look-ups while all expire: longest", busy.lookups.wall.max(), None);
    add("claims, nothing expires: p99.99", p9999(&quiet.claims), None);
    add("claims while all expire: p99.99", p9999(&busy.claims), None);
    add("claims while the store grows: longest, CPU time", growth.cpu.max(), at_most);
    let what = "a sweep of one lock, memory freed: p99.99";
    add(what, p9999(&sweeps), None);
    let what = "a sweep of one lock, memory freed: longest, CPU time";
    add(what, sweeps.cpu.max(), None);
    Ok(())
}

/// What a caller saw. A look-up waits for locks and does nothing else; a claim also waits for the
/// allocator, which has a million freed records to sort.
struct Seen {
    claims: Latencies,
    lookups: Latencies,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expiring {
    Nothing,
    Everything,
}

/// Claims of new keys, back to back, while the background task removes everything else, or as many
/// where nothing expires.
fn claims(args: &Args, expiring: Expiring) -> anyhow::Result<Seen> {
    let clock = ManualClock::new();
    let store = filled(args.records, clock.clone())?;
    // the task runs on a worker of its own, the claims on this thread
    let workers = Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
    let _inside = workers.enter();
    let (fingerprint, runtime) = (fingerprint(), runtime()?);
    let mut seen = Seen { claims: Latencies::new()?, lookups: Latencies::new()? };
    let first = intent(3, 0)?;
    workers.block_on(claim(&store, &first, fingerprint))?;
    if expiring == Expiring::Everything {
        clock.advance(Duration::from_hours(48));
    }
    let half = usize::try_from(args.records / 2)?;
    for number in 1..args.records / 2 {
        let intent = intent(3, number)?;
        let claimed = || runtime.block_on(claim(&store, &intent, fingerprint));
        seen.claims.record(claimed)?;
        let looked_up = || runtime.block_on(store.lookup(&intent.key));
        seen.lookups.record(looked_up)?;
        let claimed = usize::try_from(number)? + 1;
        if expiring == Expiring::Everything && claimed > 100_000 && store.len() <= claimed {
            break;
        }
    }
    anyhow::ensure!(expiring == Expiring::Nothing || store.len() <= half, "not swept in time");
    Ok(seen)
}

/// Claims from an empty store to a full one: the tables grow on the way.
fn growth(args: &Args) -> anyhow::Result<Latencies> {
    let store = MemoryStore::builder().capacity(usize::try_from(args.records)?).build();
    let (fingerprint, runtime) = (fingerprint(), runtime()?);
    let mut latencies = Latencies::new()?;
    for number in 0..args.records {
        let intent = intent(4, number)?;
        latencies.record(|| runtime.block_on(claim(&store, &intent, fingerprint)))?;
    }
    Ok(latencies)
}

/// Sweeps of as many records as are looked at under one lock: the whole call is longer than the lock
/// is held, because the records are freed after that.
fn sweeps(args: &Args) -> anyhow::Result<Latencies> {
    let clock = ManualClock::new();
    let store = filled(args.records, clock.clone())?;
    clock.advance(Duration::from_hours(48));
    let runtime = runtime()?;
    let batch = NonZeroU32::MIN.saturating_add(31);
    let mut latencies = Latencies::new()?;
    while latencies.record(|| runtime.block_on(store.sweep(batch)))?.more {}
    anyhow::ensure!(store.is_empty(), "{} are left", store.len());
    Ok(latencies)
}
