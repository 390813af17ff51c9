//! Closed loops of so many clients.

use std::sync::Arc;

use idempotency::{DynamoDbStore, Namespace};
use tokio::runtime::{Builder, Runtime};

use super::{
    Target,
    raw::{self, Raw, Shape},
};
use crate::{
    cli::Args,
    clients::all,
    driver::Taken,
    load::{Intent, claim, claim_and_complete, fingerprint, intent, intents, replay, response},
    report::{Bar, Figure, Report, Row},
};

/// The emulator does a thousand writes a second: so many keys a run are enough.
const MOST_KEYS: u32 = 2_000;

struct Bench {
    runtime: Runtime,
    store: Arc<DynamoDbStore>,
    raw: Raw,
    /// No two runs use the same keys.
    series: u32,
}

pub(super) fn run(args: &Args, target: &Target, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let series = std::process::id().wrapping_shl(12);
    let (store, raw) = runtime.block_on(async {
        let store = target.connect(target.address).await?;
        let sample = intent(series, 0)?;
        claim(&store, &sample, fingerprint()).await?;
        let place = Namespace::default().storage_key(&sample.key);
        let record = raw::item(store.client(), &target.table, place.as_str()).await?;
        let raw = Raw::like(store.client().clone(), &target.table, &record);
        anyhow::Ok((Arc::new(store), raw))
    })?;
    let mut bench = Bench { runtime, store, raw, series };
    for clients in [1, 16] {
        let same = format!("claim, {clients} in flight : conditional PutItem of the same item");
        bench.claims(args, report, clients, (&same, Shape::SameItem))?;
        let cheapest = format!("claim, {clients} in flight : one attribute of the same bytes");
        bench.claims(args, report, clients, (&cheapest, Shape::OneAttribute))?;
        bench.replays(args, report, clients)?;
        bench.fresh(args, report, clients)?;
    }
    Ok(())
}

impl Bench {
    fn claims(
        &mut self,
        args: &Args,
        report: &mut Report,
        clients: usize,
        (what, shape): (&str, Shape),
    ) -> anyhow::Result<()> {
        if !args.wants(what) {
            return Ok(());
        }
        let pairs = (0..args.runs).map(|run| {
            self.pair(
                args,
                run,
                |bench, intents| {
                    let store = Arc::clone(&bench.store);
                    all(&bench.runtime, intents, clients, move |_, intent| {
                        let store = Arc::clone(&store);
                        async move { claim(&*store, &intent, fingerprint()).await }
                    })
                },
                |bench, intents| {
                    let raw = bench.raw.clone();
                    all(&bench.runtime, intents, clients, move |_, intent| {
                        let raw = raw.clone();
                        async move { raw.claim(&intent, shape).await }
                    })
                },
            )
        });
        let pairs = pairs.collect::<anyhow::Result<Vec<_>>>()?;
        let bar = match shape {
            Shape::SameItem => Some(Bar::AtLeast(0.9)),
            Shape::OneAttribute => None,
        };
        add(report, what, &pairs, bar);
        Ok(())
    }

    fn replays(&mut self, args: &Args, report: &mut Report, clients: usize) -> anyhow::Result<()> {
        let what = format!("replay, {clients} in flight : consistent GetItem");
        if !args.wants(&what) {
            return Ok(());
        }
        let pairs = (0..args.runs).map(|run| {
            self.pair(
                args,
                run,
                |bench, intents| {
                    let store = Arc::clone(&bench.store);
                    bench.complete_ours(intents, clients)?;
                    all(&bench.runtime, intents, clients, move |_, intent| {
                        let store = Arc::clone(&store);
                        async move { replay(&*store, &intent).await }
                    })
                },
                |bench, intents| {
                    let raw = bench.raw.clone();
                    bench.complete_raw(intents, clients)?;
                    all(&bench.runtime, intents, clients, move |_, intent| {
                        let raw = raw.clone();
                        async move { raw.get(&intent).await }
                    })
                },
            )
        });
        let pairs = pairs.collect::<anyhow::Result<Vec<_>>>()?;
        add(report, &what, &pairs, None);
        Ok(())
    }

    fn fresh(&mut self, args: &Args, report: &mut Report, clients: usize) -> anyhow::Result<()> {
        let what = format!("claim + complete, {clients} in flight : PutItem + UpdateItem");
        if !args.wants(&what) {
            return Ok(());
        }
        let pairs = (0..args.runs).map(|run| {
            self.pair(
                args,
                run,
                |bench, intents| bench.complete_ours(intents, clients),
                |bench, intents| bench.complete_raw(intents, clients),
            )
        });
        let pairs = pairs.collect::<anyhow::Result<Vec<_>>>()?;
        add(report, &what, &pairs, None);
        Ok(())
    }

    /// Ours and the raw one on the same new intents; who goes first takes turns.
    fn pair(
        &mut self,
        args: &Args,
        run: usize,
        ours: impl Fn(&Self, &Arc<Vec<Intent>>) -> anyhow::Result<Taken>,
        raw: impl Fn(&Self, &Arc<Vec<Intent>>) -> anyhow::Result<Taken>,
    ) -> anyhow::Result<(Taken, Taken)> {
        self.series = self.series.wrapping_add(1);
        let intents = Arc::new(intents(self.series, args.keys.min(MOST_KEYS))?);
        if run.is_multiple_of(2) {
            let ours = ours(self, &intents)?;
            Ok((ours, raw(self, &intents)?))
        } else {
            let raw = raw(self, &intents)?;
            Ok((ours(self, &intents)?, raw))
        }
    }

    fn complete_ours(&self, intents: &Arc<Vec<Intent>>, clients: usize) -> anyhow::Result<Taken> {
        let store = Arc::clone(&self.store);
        all(&self.runtime, intents, clients, move |_, intent| {
            let store = Arc::clone(&store);
            async move { claim_and_complete(&*store, &intent, fingerprint(), &response()).await }
        })
    }

    fn complete_raw(&self, intents: &Arc<Vec<Intent>>, clients: usize) -> anyhow::Result<Taken> {
        let raw = self.raw.clone();
        all(&self.runtime, intents, clients, move |_, intent| {
            let raw = raw.clone();
            async move {
                raw.claim(&intent, Shape::OneAttribute).await?;
                raw.complete(&intent).await
            }
        })
    }
}

fn add(report: &mut Report, what: &str, pairs: &[(Taken, Taken)], bar: Option<Bar>) {
    let mut row = |what: String, unit, figure: fn(&Taken) -> f64, bar| {
        report.add(Row {
            what,
            unit,
            ours: pairs.iter().map(|(ours, _)| figure(ours)).collect(),
            other: pairs.iter().map(|(_, raw)| figure(raw)).collect(),
            figure: Figure::OursToOther,
            bar,
        });
    };
    row(what.to_owned(), "/s", Taken::per_second, bar);
    row(format!("{what}: CPU of this process"), "ns", Taken::cpu_ns, None);
}
