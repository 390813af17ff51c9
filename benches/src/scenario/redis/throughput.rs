use std::{future::Future, pin::Pin, sync::Arc};

use idempotency::IdempotencyStore;
use tokio::runtime::{Builder, Runtime};

use super::others::{Idempotent, Raw, number};
use crate::{
    cli::Args,
    driver::{Taken, timed},
    load::{Intent, claim, claim_and_complete, fingerprint, intents, replay, response},
    report::{Bar, Figure, Report, Row},
};

/// What a closed loop of many clients took, and the server's part of it.
struct Run {
    taken: Taken,
    server_cpu_us: f64,
}

impl Run {
    fn per_second(&self) -> f64 {
        self.taken.per_second()
    }

    fn client_us(&self) -> f64 {
        self.taken.cpu_ns() / 1e3
    }

    fn server_us(&self) -> f64 {
        self.server_cpu_us / f64::from(self.taken.operations)
    }
}

/// One server, and what is measured on it.
struct Bench {
    runtime: Runtime,
    store: Arc<dyn IdempotencyStore>,
    raw: Raw,
    idempotent: Arc<Idempotent>,
    keys: u32,
    /// No two runs use the same keys.
    series: u32,
}

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (store, raw, idempotent) = runtime.block_on(async {
        let namespace = format!("bench-{:08x}", std::process::id());
        let store = idempotency::connect(&format!("{}?namespace={namespace}", args.url)).await?;
        let raw = Raw::connect(&args.url).await?;
        anyhow::Ok((store.store(), raw, Arc::new(Idempotent::connect(&args.url).await?)))
    })?;
    let series = std::process::id().wrapping_shl(12);
    let mut bench = Bench { runtime, store, raw, idempotent, keys: args.keys, series };
    for clients in [64, 256] {
        let bar = if clients == 64 { 0.70 } else { 0.80 };
        bench.claims(args, report, clients, bar)?;
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
        bar: f64,
    ) -> anyhow::Result<()> {
        let what = format!("claim, {clients} in flight");
        if !args.wants(&what) {
            return Ok(());
        }
        let (mut ours, mut other) = (Vec::new(), Vec::new());
        for _ in 0..args.runs {
            ours.push(self.ours(clients, Do::Claim)?.per_second());
            other.push(self.raw(clients, Do::Claim)?.per_second());
        }
        report.add(ratio(format!("{what} : SET NX PX"), ours, other, Some(bar)));
        Ok(())
    }

    fn replays(&mut self, args: &Args, report: &mut Report, clients: usize) -> anyhow::Result<()> {
        let what = format!("replay, {clients} in flight");
        if !args.wants(&what) {
            return Ok(());
        }
        let (mut ours, mut other) = (Vec::new(), Vec::new());
        for _ in 0..args.runs {
            let intents = self.next_intents()?;
            self.ours_with(&intents, clients, Do::Fresh)?;
            ours.push(self.ours_with(&intents, clients, Do::Replay)?.per_second());
            self.raw_with(&intents, clients, Do::Fresh)?;
            other.push(self.raw_with(&intents, clients, Do::Replay)?.per_second());
        }
        report.add(ratio(format!("{what} : GET"), ours, other, Some(0.70)));
        Ok(())
    }

    fn fresh(&mut self, args: &Args, report: &mut Report, clients: usize) -> anyhow::Result<()> {
        let what = format!("claim + complete, {clients} in flight");
        if !args.wants(&what) {
            return Ok(());
        }
        let (mut ours, mut raw, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..args.runs {
            ours.push(self.ours(clients, Do::Fresh)?);
            raw.push(self.raw(clients, Do::Fresh)?);
            theirs.push(self.idempotent(clients)?);
        }
        let rates = |runs: &[Run]| runs.iter().map(Run::per_second).collect::<Vec<_>>();
        let name = format!("{what} : SET NX PX + SET PX");
        report.add(ratio(name, rates(&ours), rates(&raw), Some(0.60)));
        let name = format!("{what} : idempotent 0.3.0");
        report.add(ratio(name, rates(&ours), rates(&theirs), Some(1.4)));
        let client = |runs: &[Run]| runs.iter().map(Run::client_us).collect::<Vec<_>>();
        let server = |runs: &[Run]| runs.iter().map(Run::server_us).collect::<Vec<_>>();
        for (whose, runs, bars) in [
            ("", &ours, [Some(Bar::AtMost(13.0)), Some(Bar::AtMost(9.0))]),
            (", raw", &raw, [None, None]),
            (", idempotent", &theirs, [None, None]),
        ] {
            report.add(micros(format!("{what}: client CPU{whose}"), client(runs), bars[0]));
            report.add(micros(format!("{what}: server CPU{whose}"), server(runs), bars[1]));
        }
        Ok(())
    }

    fn next_intents(&mut self) -> anyhow::Result<Arc<Vec<Intent>>> {
        self.series = self.series.wrapping_add(1);
        Ok(Arc::new(intents(self.series, self.keys)?))
    }

    fn ours(&mut self, clients: usize, what: Do) -> anyhow::Result<Run> {
        let intents = self.next_intents()?;
        self.ours_with(&intents, clients, what)
    }

    fn raw(&mut self, clients: usize, what: Do) -> anyhow::Result<Run> {
        let intents = self.next_intents()?;
        self.raw_with(&intents, clients, what)
    }

    fn ours_with(
        &self,
        intents: &Arc<Vec<Intent>>,
        clients: usize,
        what: Do,
    ) -> anyhow::Result<Run> {
        let store = Arc::clone(&self.store);
        let intents = Arc::clone(intents);
        self.all(clients, move |client| {
            let (store, intents) = (Arc::clone(&store), Arc::clone(&intents));
            Box::pin(async move {
                let (fingerprint, response) = (fingerprint(), response());
                for intent in intents.iter().skip(client).step_by(clients) {
                    match what {
                        Do::Claim => claim(&*store, intent, fingerprint).await?,
                        Do::Fresh => {
                            claim_and_complete(&*store, intent, fingerprint, &response).await?;
                        }
                        Do::Replay => replay(&*store, intent).await?,
                    }
                }
                Ok(())
            })
        })
    }

    fn raw_with(&self, intents: &[Intent], clients: usize, what: Do) -> anyhow::Result<Run> {
        let keys: Arc<Vec<_>> = Arc::new(intents.iter().map(Raw::key).collect());
        let raw = self.raw.clone();
        self.all(clients, move |client| {
            let (raw, keys) = (raw.clone(), Arc::clone(&keys));
            Box::pin(async move {
                for key in keys.iter().skip(client).step_by(clients) {
                    match what {
                        Do::Claim => raw.claim(key).await?,
                        Do::Replay => raw.get(key).await?,
                        Do::Fresh => {
                            raw.claim(key).await?;
                            raw.complete(key).await?;
                        }
                    }
                }
                Ok(())
            })
        })
    }

    fn idempotent(&mut self, clients: usize) -> anyhow::Result<Run> {
        let keys = self.next_intents()?;
        let keys = keys.iter().map(Idempotent::key).collect::<Result<Vec<_>, _>>()?;
        let (keys, store) = (Arc::new(keys), Arc::clone(&self.idempotent));
        self.all(clients, move |client| {
            let (store, keys) = (Arc::clone(&store), Arc::clone(&keys));
            Box::pin(async move {
                let response = response();
                for key in keys.iter().skip(client).step_by(clients) {
                    store.claim_and_complete(key, &response).await?;
                }
                Ok(())
            })
        })
    }

    /// Runs all clients to their end.
    fn all(&self, clients: usize, client: impl Fn(usize) -> Client) -> anyhow::Result<Run> {
        let before = self.server_cpu()?;
        let mut failed = None;
        let taken = timed(self.keys, || {
            let clients: Vec<_> = (0..clients).map(|n| self.runtime.spawn(client(n))).collect();
            for client in clients {
                let ended = self.runtime.block_on(client).map_err(anyhow::Error::from);
                failed = failed.take().or(ended.and_then(|ended| ended).err());
            }
        });
        failed.map_or(Ok(()), Err)?;
        Ok(Run { taken, server_cpu_us: self.server_cpu()? - before })
    }

    fn server_cpu(&self) -> anyhow::Result<f64> {
        let info = self.runtime.block_on(self.raw.info("cpu"))?;
        Ok((number(&info, "used_cpu_user") + number(&info, "used_cpu_sys")) * 1e6)
    }
}

type Client = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

#[derive(Clone, Copy)]
enum Do {
    Claim,
    Fresh,
    Replay,
}

fn ratio(what: String, ours: Vec<f64>, other: Vec<f64>, bar: Option<f64>) -> Row {
    let (unit, figure) = ("/s", Figure::OursToOther);
    Row { what, unit, ours, other, figure, bar: bar.map(Bar::AtLeast) }
}

fn micros(what: String, ours: Vec<f64>, bar: Option<Bar>) -> Row {
    Row { what, unit: "us", ours, other: Vec::new(), figure: Figure::Ours, bar }
}
