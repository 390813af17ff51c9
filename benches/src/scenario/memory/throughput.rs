//! Claim and complete on fresh keys, beside a bare map and beside another crate's memory store.

use std::sync::Arc;

use idempotency::IdempotencyStore;
use tokio::runtime::{Builder, Runtime};

use super::{
    others::{BareMap, Idempotent},
    threads,
};
use crate::{
    cli::Args,
    driver::{Taken, timed},
    load::{Intent, claim_and_complete, fingerprint, intents, response},
    report::{Bar, Figure, Report, Row},
};

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let intents = Arc::new(intents(2, args.keys)?);
    let (first, second) = intents.split_at(intents.len() / 2);
    let halves = [first.to_vec(), second.to_vec()];
    let mut taken = Runs::default();
    for _ in 0..args.runs {
        taken.ours.push(ours(args, &intents)?);
        taken.bare.push(bare_map(&intents));
        taken.idempotent.push(idempotent(&intents)?);
        taken.ours_1.push(ours_on_two(args, &intents, 1)?);
        taken.idempotent_1.push(idempotent_on_two(&intents, 1)?);
        taken.ours_64.push(ours_on_two(args, &intents, 64)?);
        taken.idempotent_64.push(idempotent_on_two(&intents, 64)?);
        taken.ours_half.push(threads::ours(args, &halves, 1)?);
        taken.ours_two.push(threads::ours(args, &halves, 2)?);
        taken.bare_half.push(threads::bare_map(&halves, 1));
        taken.bare_two.push(threads::bare_map(&halves, 2));
    }
    taken.add_to(report);
    Ok(())
}

#[derive(Default)]
struct Runs {
    ours: Vec<Taken>,
    bare: Vec<Taken>,
    idempotent: Vec<Taken>,
    ours_1: Vec<Taken>,
    idempotent_1: Vec<Taken>,
    ours_64: Vec<Taken>,
    idempotent_64: Vec<Taken>,
    ours_half: Vec<Taken>,
    ours_two: Vec<Taken>,
    bare_half: Vec<Taken>,
    bare_two: Vec<Taken>,
}

impl Runs {
    fn add_to(&self, report: &mut Report) {
        let wall = |runs: &[Taken]| runs.iter().map(Taken::wall_ns).collect::<Vec<_>>();
        let cpu = |runs: &[Taken]| runs.iter().map(Taken::cpu_ns).collect::<Vec<_>>();
        let rate = |runs: &[Taken]| runs.iter().map(Taken::per_second).collect::<Vec<_>>();
        let mut add = |what: &str, unit, (ours, other), bar| {
            report.add(Row {
                what: what.to_owned(),
                unit,
                ours,
                other,
                figure: Figure::OursToOther,
                bar,
            });
        };
        let map = Some(Bar::AtMost(2.5));
        let faster = Some(Bar::AtLeast(4.0));
        let scaled = Some(Bar::AtLeast(1.5));
        let pair = (wall(&self.ours), wall(&self.bare));
        add("claim + complete, to a bare DashMap", "ns", pair, map);
        let pair = (cpu(&self.ours), cpu(&self.bare));
        add("the same, CPU time", "ns", pair, map);
        let pair = (rate(&self.ours), rate(&self.idempotent));
        add("claim + complete, 1 client on 1 thread, to idempotent 0.3.0", "/s", pair, faster);
        let pair = (cpu(&self.ours), cpu(&self.idempotent));
        add("the same, CPU time", "ns", pair, None);
        let pair = (rate(&self.ours_1), rate(&self.idempotent_1));
        add("claim + complete, 1 client on 2 workers, to idempotent 0.3.0", "/s", pair, faster);
        let pair = (cpu(&self.ours_1), cpu(&self.idempotent_1));
        add("the same, CPU time", "ns", pair, None);
        let pair = (rate(&self.ours_64), rate(&self.idempotent_64));
        add("claim + complete, 64 clients on 2 workers, to idempotent 0.3.0", "/s", pair, faster);
        let pair = (cpu(&self.ours_64), cpu(&self.idempotent_64));
        add("the same, CPU time", "ns", pair, None);
        let pair = (rate(&self.ours_two), rate(&self.ours_half));
        add("2 threads on their own keys, to 1", "/s", pair, scaled);
        let pair = (cpu(&self.ours_two), cpu(&self.ours_half));
        add("the same, CPU time: 1 is no contention at all", "ns", pair, None);
        let pair = (rate(&self.bare_two), rate(&self.bare_half));
        add("the same, bare DashMap: what the machine allows", "/s", pair, None);
    }
}

pub(super) fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_time().build()?)
}

pub(super) fn store(args: &Args) -> anyhow::Result<Arc<dyn IdempotencyStore>> {
    let connected = runtime()?.block_on(idempotency::connect(&args.url))?;
    Ok(connected.store())
}

pub(super) async fn all(store: &dyn IdempotencyStore, intents: impl Iterator<Item = &Intent>) {
    let (fingerprint, response) = (fingerprint(), response());
    for intent in intents {
        let done = claim_and_complete(store, intent, fingerprint, &response).await;
        assert!(done.is_ok(), "{done:?}");
    }
}

pub(super) fn count(intents: &[Intent]) -> u32 {
    u32::try_from(intents.len()).unwrap_or(u32::MAX)
}

fn ours(args: &Args, intents: &[Intent]) -> anyhow::Result<Taken> {
    let (store, runtime) = (store(args)?, runtime()?);
    Ok(timed(count(intents), || {
        runtime.block_on(all(&*store, intents.iter()));
    }))
}

fn bare_map(intents: &[Intent]) -> Taken {
    let map = BareMap::default();
    let keys: Vec<_> = intents.iter().map(BareMap::key).collect();
    timed(count(intents), || on_bare_map(&map, &keys, intents))
}

pub(super) fn on_bare_map(map: &BareMap, keys: &[Arc<str>], intents: &[Intent]) {
    let (fingerprint, response) = (fingerprint(), response());
    for (key, intent) in keys.iter().zip(intents) {
        assert!(map.insert(key, intent.token, fingerprint));
        assert!(map.update(key, intent.token, &response));
    }
}

fn idempotent(intents: &[Intent]) -> anyhow::Result<Taken> {
    let keys: Vec<_> = intents.iter().map(Idempotent::key).collect::<Result<_, _>>()?;
    let runtime = runtime()?;
    let response = response();
    let store = runtime.block_on(async { Idempotent::new() });
    Ok(timed(count(intents), || {
        runtime.block_on(async {
            for key in &keys {
                let done = store.claim_and_complete(key, &response).await;
                assert!(done.is_ok(), "{done:?}");
            }
        });
    }))
}

fn two_workers() -> anyhow::Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    Ok(runtime)
}

fn ours_on_two(args: &Args, intents: &Arc<Vec<Intent>>, clients: usize) -> anyhow::Result<Taken> {
    let (store, runtime) = (store(args)?, two_workers()?);
    Ok(timed(count(intents), || {
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let (store, intents) = (Arc::clone(&store), Arc::clone(intents));
                runtime.spawn(async move {
                    all(&*store, intents.iter().skip(client).step_by(clients)).await;
                })
            })
            .collect();
        wait_for(&runtime, tasks);
    }))
}

fn idempotent_on_two(intents: &[Intent], clients: usize) -> anyhow::Result<Taken> {
    let keys: Vec<_> = intents.iter().map(Idempotent::key).collect::<Result<_, _>>()?;
    let (keys, runtime) = (Arc::new(keys), two_workers()?);
    let store = Arc::new(runtime.block_on(async { Idempotent::new() }));
    Ok(timed(count(intents), || {
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let (store, keys) = (Arc::clone(&store), Arc::clone(&keys));
                runtime.spawn(async move {
                    let response = response();
                    for key in keys.iter().skip(client).step_by(clients) {
                        let done = store.claim_and_complete(key, &response).await;
                        assert!(done.is_ok(), "{done:?}");
                    }
                })
            })
            .collect();
        wait_for(&runtime, tasks);
    }))
}

fn wait_for(runtime: &Runtime, tasks: Vec<tokio::task::JoinHandle<()>>) {
    runtime.block_on(async {
        for task in tasks {
            let ended = task.await;
            assert!(ended.is_ok(), "{ended:?}");
        }
    });
}
