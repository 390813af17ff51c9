//! What the server writes for those who do not win.

use idempotency::sqlx::{self, PgPool};
use tokio::runtime::Builder;

use super::{raw::Raw, throughput::store};
use crate::{
    cli::Args,
    load::{claim_and_complete, fingerprint, intent, replay, response},
    report::{Bar, Figure, Report, Row},
};

const OPERATIONS: u32 = 2_000;

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let written = runtime.block_on(written(args))?;
    report.add(Row {
        what: "wal of a replay".to_owned(),
        unit: "bytes",
        ours: vec![written],
        other: Vec::new(),
        figure: Figure::Ours,
        // the server notes by itself, now and then, which transactions run
        bar: Some(Bar::AtMost(0.5)),
    });
    Ok(())
}

async fn written(args: &Args) -> anyhow::Result<f64> {
    let store = store(&args.url, 2).await?;
    let raw = Raw::connect(&args.url, 1).await?;
    let intent = intent(std::process::id(), 0)?;
    claim_and_complete(&*store, &intent, fingerprint(), &response()).await?;
    sqlx::raw_sql("CHECKPOINT").execute(&raw.pool).await?;
    replay(&*store, &intent).await?;
    let before = position(&raw.pool).await?;
    for _ in 0..OPERATIONS {
        replay(&*store, &intent).await?;
    }
    let bytes = u32::try_from(position(&raw.pool).await? - before)?;
    Ok(f64::from(bytes) / f64::from(OPERATIONS))
}

async fn position(pool: &PgPool) -> anyhow::Result<i64> {
    let position = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    Ok(sqlx::query_scalar(position).fetch_one(pool).await?)
}
