//! The same load from several threads, each with keys of its own.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use super::{
    others::BareMap,
    throughput::{all, count, on_bare_map, runtime, store},
};
use crate::{
    cli::Args,
    driver::{Taken, timed},
    load::Intent,
};

pub(super) fn ours(args: &Args, loads: &[Vec<Intent>], threads: usize) -> anyhow::Result<Taken> {
    let store = store(args)?;
    let runtimes = loads.iter().map(|_| runtime()).collect::<Result<Vec<_>, _>>()?;
    let loads: Vec<_> = runtimes.iter().zip(loads).take(threads).collect();
    let operations = loads.iter().map(|(_, load)| count(load)).sum();
    Ok(on_threads(operations, &loads, |(runtime, load)| {
        runtime.block_on(all(&*store, load.iter()));
    }))
}

pub(super) fn bare_map(loads: &[Vec<Intent>], threads: usize) -> Taken {
    let map = BareMap::default();
    let keys = |load: &Vec<Intent>| load.iter().map(BareMap::key).collect::<Vec<Arc<str>>>();
    let keys: Vec<_> = loads.iter().map(keys).collect();
    let loads: Vec<_> = keys.iter().zip(loads).take(threads).collect();
    let operations = loads.iter().map(|(_, load)| count(load)).sum();
    on_threads(operations, &loads, |(keys, load)| {
        on_bare_map(&map, keys, load);
    })
}

/// Runs each load on a thread of its own, and times them from one barrier to another: starting a
/// thread is not what is measured.
fn on_threads<L: Copy + Send + Sync>(
    operations: u32,
    loads: &[L],
    work: impl Fn(L) + Sync,
) -> Taken {
    let barrier = Barrier::new(loads.len() + 1);
    thread::scope(|scope| {
        for load in loads.iter().copied() {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(load);
                barrier.wait();
            });
        }
        timed(operations, || {
            barrier.wait();
            barrier.wait();
        })
    })
}
