//! The server's own counters: what an operation sends. Commands inside of scripts are counted as well;
//! what comes over the wire is `SET` and `PTTL`, sent together, for a claim, and one `EVALSHA` for
//! everything else.

use tokio::runtime::Builder;

use super::others::{Raw, number};
use crate::{
    cli::Args,
    load::{claim, claim_and_complete, fingerprint, intent, replay, response},
    report::{Bar, Figure, Report, Row},
};

const OPERATIONS: u32 = 1_000;

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(count(args, report))
}

async fn count(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let namespace = format!("counters-{:08x}", std::process::id());
    let store = idempotency::connect(&format!("{}?namespace={namespace}", args.url)).await?.store();
    let raw = Raw::connect(&args.url).await?;
    let (fingerprint, response) = (fingerprint(), response());
    // the server gets to know the script
    claim_and_complete(&*store, &intent(8, 0)?, fingerprint, &response).await?;

    raw.reset_counters().await?;
    for operation in 0..OPERATIONS {
        claim(&*store, &intent(9, operation)?, fingerprint).await?;
    }
    let claims = raw.info("commandstats").await?;
    raw.reset_counters().await?;
    for operation in 0..OPERATIONS {
        claim_and_complete(&*store, &intent(10, operation)?, fingerprint, &response).await?;
    }
    let fresh = raw.info("commandstats").await?;
    raw.reset_counters().await?;
    for operation in 0..OPERATIONS {
        replay(&*store, &intent(10, operation)?).await?;
    }
    let replays = raw.info("commandstats").await?;

    for (what, stats, command, expected) in [
        ("claim", &claims, "set", 1.0),
        ("claim", &claims, "pttl", 1.0),
        ("claim", &claims, "evalsha", 0.0),
        ("claim + complete", &fresh, "evalsha", 1.0),
        ("replay", &replays, "set", 1.0),
        ("replay", &replays, "pttl", 1.0),
        ("replay", &replays, "evalsha", 0.0),
    ] {
        report.add(Row {
            what: format!("round trips: {command} a {what}"),
            unit: "calls",
            ours: vec![calls(stats, command) / f64::from(OPERATIONS)],
            other: Vec::new(),
            figure: Figure::Ours,
            bar: Some(Bar::AtMost(expected)),
        });
    }
    Ok(())
}

/// How often a command ran, by `cmdstat_set:calls=1000,usec=…`.
fn calls(stats: &str, command: &str) -> f64 {
    let lines = stats.replace(":calls=", "\ncalls of it:").replace(',', "\n");
    let Some(at) = lines.find(&format!("cmdstat_{command}\n")) else {
        return 0.0;
    };
    number(lines.get(at..).unwrap_or_default(), "calls of it")
}
