//! `idempotency storm`: merchants pay through a faulty network, once in a world without idempotency
//! keys and once with ours, and a ledger counts what was charged.

mod fleet;
mod judge;
mod ledger;
mod merchant;
mod network;
mod pace;
mod report;
mod schedule;
mod sdk;
mod shop;
mod worker;
mod world;

use std::num::{NonZeroU64, NonZeroUsize};

use anyhow::{Context, bail};
use clap::Args;
use idempotency::{Connected, Sharing};
use idempotency_conformance::unique_namespace;
use tokio::runtime;

pub(crate) use self::worker::{StormWorker, run as work};
use self::{
    fleet::Crew,
    pace::Pace,
    report::Report,
    schedule::Schedule,
    world::{Stage, World},
};
use crate::{
    args::{Format, StoreAddress},
    console::Console,
    ended::Ended,
    progress,
    store_url::StoreUrl,
};

#[derive(Args)]
pub(crate) struct Storm {
    /// The URL of the store; `env:NAME` takes it from the environment. The storm keeps to a namespace
    /// of its own.
    #[arg(value_name = "STORE_URL", default_value = "memory:")]
    pub(crate) store: StoreAddress,

    /// Payments: each is one intent, with one key for all its tries.
    #[arg(long, value_name = "NUMBER", default_value = "10000")]
    pub(crate) payments: NonZeroU64,

    /// Merchants that pay at the same time, each one payment after the other.
    #[arg(long, value_name = "NUMBER", default_value = "16")]
    pub(crate) merchants: NonZeroUsize,

    /// How many of all tries get no answer, from 0 to 1: request or reply lost, request late, handler
    /// slow, owner crashed before or after the charge.
    #[arg(long, value_name = "RATE", default_value_t = 0.005, value_parser = rate)]
    pub(crate) timeout_rate: f64,

    /// Makes the same faults again. Random unless given; the report names it.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Worker processes that execute the payments; some are killed and started again. 1: this
    /// process, where a crash is a task that is dropped.
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) processes: NonZeroUsize,

    /// How the report is written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
    rate.ok_or("a rate is a number from 0 to 1, such as 0.005")
}

/// What a storm does, whatever the store.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    schedule: Schedule,
    payments: u64,
    merchants: usize,
}

impl From<&Storm> for Plan {
    fn from(options: &Storm) -> Self {
        // short enough to type
        let seed = options.seed.unwrap_or_else(|| u64::from(fastrand::u32(..)));
        Self {
            schedule: Schedule::new(seed, options.timeout_rate),
            payments: options.payments.get(),
            merchants: options.merchants.get(),
        }
    }
}

pub(crate) fn run(options: &Storm, console: &mut Console<'_>) -> anyhow::Result<Ended> {
    let plan = Plan::from(options);
    let url = StoreUrl::new(options.store.as_str()).in_namespace(&unique_namespace());
    let report = if url.is_memory() {
        if options.processes.get() > 1 {
            bail!(
                "--processes {} needs a store that processes share: the records of memory: end with \
                 their process; give the URL of a server",
                options.processes
            );
        }
        simulate(&plan, async || Ok(idempotency::connect(url.as_str()).await?))?
    } else {
        let runtime = runtime::Runtime::new()?;
        runtime.block_on(in_real_time(&plan, options.processes.get(), url.as_str()))?
    };
    match options.format {
        Format::Table => console.say(&report)?,
        Format::Json => console.say(serde_json::to_string(&report)?)?,
    }
    Ok(if report.is_green() { Ended::Done } else { Ended::No })
}

/// In simulated time, on one thread: the clock stands still while anybody has something to do, then
/// goes on to the next moment at which somebody wants to wake up. The same plan gives the same report.
fn simulate(
    plan: &Plan,
    connect: impl AsyncFn() -> anyhow::Result<Connected>,
) -> anyhow::Result<Report> {
    // the executor's own jitter
    fastrand::seed(plan.schedule.seed());
    let runtime =
        runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let store = connect().await?;
        let pace = Pace::as_in_life();
        let name = format!("{}, in simulated time", store.store().profile().name);
        let stage = Stage::Here(store);
        both_worlds(plan, pace, &stage, name).await
    })
}

async fn in_real_time(plan: &Plan, processes: usize, url: &str) -> anyhow::Result<Report> {
    let store = idempotency::connect(url).await?;
    let profile = store.store().profile().clone();
    let pace = Pace::quick(profile.skew_bound);
    if processes == 1 {
        return both_worlds(plan, pace, &Stage::Here(store), profile.name.to_owned()).await;
    }
    if profile.sharing == Sharing::Process {
        bail!("--processes needs a store that processes share, not {}", profile.name);
    }
    let program = std::env::current_exe().context("finding this program, to start it again")?;
    let crew = Crew { program, url: url.to_owned(), processes };
    let name = format!("{}, {processes} worker processes", profile.name);
    both_worlds(plan, pace, &Stage::Processes(crew), name).await
}

async fn both_worlds(
    plan: &Plan,
    pace: Pace,
    stage: &Stage,
    store: String,
) -> anyhow::Result<Report> {
    let progress = progress::bar(plan.payments * 2, "payments");
    let without_keys = world::run(plan, pace, stage, World::WithoutKeys, &progress).await?;
    let with_keys = world::run(plan, pace, stage, World::WithKeys, &progress).await?;
    progress.finish_and_clear();
    Ok(Report::new(plan, store, without_keys, with_keys))
}

#[cfg(test)]
mod tests;
