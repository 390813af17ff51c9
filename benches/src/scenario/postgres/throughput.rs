//! Closed loops of so many clients on so many connections.

use std::sync::Arc;

use idempotency::IdempotencyStore;
use tokio::runtime::{Builder, Runtime};

use super::{raw::Raw, with};
use crate::{
    cli::Args,
    clients::all,
    driver::Taken,
    load::{Intent, claim, claim_and_complete, fingerprint, intents, replay, response},
    report::{Bar, Figure, Report, Row},
};

/// A commit waits for the disk: so many keys a client and run are enough.
const KEYS_A_CLIENT: usize = 1_500;
const MOST_KEYS: u32 = 30_000;

/// Looks of a run, over and over at the same keys: a shorter run ends before the scheduler has found the
/// processes their cores.
const LOOKS: usize = 20_000;

pub(super) struct Bench {
    pub(super) runtime: Runtime,
    series: u32,
}

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut bench = Bench { runtime, series: std::process::id().wrapping_shl(12) };
    for (clients, bar) in [(1, 0.70), (16, 0.80)] {
        bench.claims(args, report, clients, clients, bar)?;
    }
    bench.claims(args, report, 256, 64, 5.0)?;
    for clients in [1, 64, 256] {
        bench.sharing(args, report, clients)?;
    }
    for clients in [1, 16] {
        bench.replays(args, report, clients)?;
    }
    Ok(())
}

pub(super) async fn store(
    url: &str,
    connections: usize,
) -> anyhow::Result<Arc<dyn IdempotencyStore>> {
    tuned(url, connections, "group_commit=on").await
}

async fn tuned(
    url: &str,
    connections: usize,
    more: &str,
) -> anyhow::Result<Arc<dyn IdempotencyStore>> {
    let ours = format!("create=on&max_connections={connections}&timeout_ms=20000&{more}");
    Ok(idempotency::connect(&with(url, &ours)).await?.store())
}

impl Bench {
    /// Ours with `ours` clients, raw ones with `raw` clients on as many connections.
    fn claims(
        &mut self,
        args: &Args,
        report: &mut Report,
        ours: usize,
        raw: usize,
        bar: f64,
    ) -> anyhow::Result<()> {
        let what = format!("claim, {ours} in flight : INSERT by {raw}");
        if !args.wants(&what) {
            return Ok(());
        }
        let store = self.runtime.block_on(store(&args.url, raw.min(ours)))?;
        let bare = self.runtime.block_on(Raw::connect(&args.url, raw))?;
        let (mut us, mut other) = (Vec::new(), Vec::new());
        for _ in 0..args.runs {
            let intents = self.next_intents(args, ours)?;
            let claiming = Arc::clone(&store);
            us.push(all(&self.runtime, &intents, ours, move |_, intent| {
                let store = Arc::clone(&claiming);
                async move { claim(&*store, &intent, fingerprint()).await }
            })?);
            let intents = self.next_intents(args, raw)?;
            let bare = bare.clone();
            other.push(all(&self.runtime, &intents, raw, move |client, intent| {
                let bare = bare.clone();
                async move { bare.insert(client, &intent, &fingerprint().to_stored_bytes()).await }
            })?);
        }
        report.add(ratio(what, &us, &other, Some(bar)));
        Ok(())
    }

    /// Claims and their completions, with shared commits and without. A lone one shares nothing.
    fn sharing(&mut self, args: &Args, report: &mut Report, clients: usize) -> anyhow::Result<()> {
        let what = format!("claim and complete, {clients} in flight : group_commit=off");
        if !args.wants(&what) {
            return Ok(());
        }
        let connections = clients.min(64);
        let stores = ["group_commit=on", "group_commit=off"]
            .map(|more| self.runtime.block_on(tuned(&args.url, connections, more)));
        let mut taken = [Vec::new(), Vec::new()];
        let stores = stores.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        for _ in 0..args.runs {
            for (store, taken) in stores.iter().zip(&mut taken) {
                let (intents, store) = (self.next_intents(args, clients)?, Arc::clone(store));
                taken.push(
                    all(&self.runtime, &intents, clients, move |_, intent| {
                        let store = Arc::clone(&store);
                        async move {
                            claim_and_complete(&*store, &intent, fingerprint(), &response()).await
                        }
                    })?,
                );
            }
        }
        let [with, without] = taken;
        report.add(ratio(what, &with, &without, None));
        Ok(())
    }

    fn replays(&mut self, args: &Args, report: &mut Report, clients: usize) -> anyhow::Result<()> {
        let what = format!("replay, {clients} in flight : SELECT");
        if !args.wants(&what) {
            return Ok(());
        }
        let store = self.runtime.block_on(store(&args.url, clients))?;
        let bare = self.runtime.block_on(Raw::connect(&args.url, clients))?;
        let (mut us, mut other) = (Vec::new(), Vec::new());
        for _ in 0..args.runs {
            let intents = self.next_intents(args, clients)?;
            let (ours, theirs) = (Arc::clone(&store), bare.clone());
            // filled by many, looked at by few
            all(&self.runtime, &intents, 16, move |client, intent| {
                let (store, bare) = (Arc::clone(&ours), theirs.clone());
                async move {
                    claim_and_complete(&*store, &intent, fingerprint(), &response()).await?;
                    bare.insert(client, &intent, &fingerprint().to_stored_bytes()).await?;
                    bare.fill(client, &intent).await
                }
            })?;
            let looks = intents.iter().cycle().take(intents.len().max(LOOKS));
            let intents = Arc::new(looks.cloned().collect());
            let replaying = Arc::clone(&store);
            us.push(all(&self.runtime, &intents, clients, move |_, intent| {
                let store = Arc::clone(&replaying);
                async move { replay(&*store, &intent).await }
            })?);
            let bare = bare.clone();
            other.push(all(&self.runtime, &intents, clients, move |client, intent| {
                let bare = bare.clone();
                async move { bare.select(client, &intent).await }
            })?);
        }
        report.add(ratio(what, &us, &other, Some(0.75)));
        Ok(())
    }

    fn next_intents(&mut self, args: &Args, clients: usize) -> anyhow::Result<Arc<Vec<Intent>>> {
        self.series = self.series.wrapping_add(1);
        let keys = u32::try_from(clients * KEYS_A_CLIENT)?.min(MOST_KEYS).min(args.keys);
        Ok(Arc::new(intents(self.series, keys)?))
    }
}

fn ratio(what: String, ours: &[Taken], other: &[Taken], bar: Option<f64>) -> Row {
    let rates = |runs: &[Taken]| runs.iter().map(Taken::per_second).collect();
    Row {
        what,
        unit: "/s",
        ours: rates(ours),
        other: rates(other),
        figure: Figure::OursToOther,
        bar: bar.map(Bar::AtLeast),
    }
}
