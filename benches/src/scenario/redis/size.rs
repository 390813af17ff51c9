use tokio::runtime::Builder;

use super::others::{Raw, number};
use crate::{
    cli::Args,
    load::{claim_and_complete, fingerprint, intent, response},
    report::{Bar, Figure, Report, Row},
};

/// So many that what the server allocates besides does not count.
const RECORDS: u32 = 50_000;

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (ours, other) = runtime.block_on(measure(args))?;
    report.add(Row {
        what: "memory of a completed record : a string with the response".to_owned(),
        unit: "bytes",
        ours: vec![ours],
        other: vec![other],
        figure: Figure::OursToOther,
        bar: Some(Bar::AtMost(1.35)),
    });
    Ok(())
}

async fn measure(args: &Args) -> anyhow::Result<(f64, f64)> {
    // as long as `rawcommands`
    let namespace = format!("size-{:06x}", std::process::id() & 0xff_ffff);
    let store = idempotency::connect(&format!("{}?namespace={namespace}", args.url)).await?.store();
    let raw = Raw::connect(&args.url).await?;
    let (fingerprint, response) = (fingerprint(), response());
    let series = std::process::id();
    let before = used(&raw).await?;
    for number in 0..RECORDS {
        claim_and_complete(&*store, &intent(series, number)?, fingerprint, &response).await?;
    }
    let between = used(&raw).await?;
    for number in 0..RECORDS {
        raw.complete(&Raw::key(&intent(series, number)?)).await?;
    }
    let after = used(&raw).await?;
    let each = f64::from(RECORDS);
    Ok(((between - before) / each, (after - between) / each))
}

async fn used(raw: &Raw) -> anyhow::Result<f64> {
    Ok(number(&raw.info("memory").await?, "used_memory"))
}
