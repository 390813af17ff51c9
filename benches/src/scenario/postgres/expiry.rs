//! Claims on a full table, and beside sweepers of a full table.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use idempotency::{Connected, IdempotencyStore, Sweeper, sqlx};
use tokio::{runtime::Builder, time};

use super::{raw::Raw, with};
use crate::{
    cli::Args,
    driver::now,
    load::{claim, fingerprint, intents},
    report::{Bar, Figure, Report, Row},
};

/// 500 claims a second, for six seconds, or for as long as a sweep lasts.
const EVERY: Duration = Duration::from_millis(2);
const CLAIMS: u32 = 3_000;

/// Fewer claims than this have no 99th percentile.
const LEAST_CLAIMS: usize = 500;

/// Beyond the time-out of an operation.
const LONGEST_MICROS: u64 = 60_000_000;

const FILL: &str = "INSERT INTO bench_full (key, format, state, token, attempt, retention_ms, \
    fingerprint, first_claimed_at, claimed_at, expires_at, sweep_at, ended_at, response) \
    SELECT $3 || md5(n::text), 1, 3, gen_random_uuid(), 1, 1000, convert_to(repeat('f', 33), 'UTF8'), \
    now(), now(), now() + $2::float8 * interval '1 s', now() + $2::float8 * interval '1 s', now(), \
    convert_to(repeat('r', 300), 'UTF8') FROM generate_series(1, $1::bigint) n";

/// Two tables side by side: each run claims on the empty one, on the full one, and on the full one beside
/// a sweeper, so that what else goes on meets all three.
pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (empty, full) = (table(args, "bench_empty").await?, table(args, "bench_full").await?);
        let raw = Raw::connect(&args.url, 1).await?;
        let mut series = std::process::id().wrapping_shl(8);
        let mut next = || {
            series = series.wrapping_add(1);
            series
        };
        empty_all(&raw, "bench_empty, bench_full").await?;
        fill(&raw, args.records, 3_600.0, "live/").await?;
        // connections, plans, and the first pages of the tables
        for connected in [&empty, &full] {
            let _warm = p99(&connected.store(), next(), || false).await?;
        }
        let (mut on_empty, mut on_full, mut beside) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..args.runs {
            empty_all(&raw, "bench_empty").await?;
            on_empty.push(p99(&empty.store(), next(), || false).await?);
            on_full.push(p99(&full.store(), next(), || false).await?);
            fill(&raw, args.records, -1.0, "gone/").await?;
            let sweeping = tokio::spawn(sweep(full.clone()));
            beside.push(p99(&full.store(), next(), || sweeping.is_finished()).await?);
            let removed = sweeping.await??;
            anyhow::ensure!(removed >= u64::from(args.records), "{removed} swept");
        }
        report.add(row("expiry: p99 of a claim, table full : empty", &on_full, on_empty));
        report.add(row("expiry: p99 of a claim, beside a sweep : without", &beside, on_full));
        Ok(())
    })
}

async fn table(args: &Args, name: &str) -> anyhow::Result<Connected> {
    let ours = format!("create=on&table={name}&max_connections=8&timeout_ms=20000");
    Ok(idempotency::connect(&with(&args.url, &ours)).await?)
}

/// A checkpoint, so that none begins in the middle of a measurement.
async fn empty_all(raw: &Raw, tables: &str) -> anyhow::Result<()> {
    let truncate = sqlx::AssertSqlSafe(format!("TRUNCATE {tables}"));
    sqlx::raw_sql(truncate).execute(&raw.pool).await?;
    sqlx::raw_sql("CHECKPOINT").execute(&raw.pool).await?;
    Ok(())
}

async fn sweep(connected: Connected) -> anyhow::Result<u64> {
    let sweep = connected.sweep().context("no sweep")?;
    Ok(Sweeper::sweep_all(&*sweep).await?.removed)
}

async fn fill(raw: &Raw, records: u32, left: f64, prefix: &str) -> anyhow::Result<()> {
    let fill = sqlx::query(FILL).bind(i64::from(records)).bind(left).bind(prefix);
    fill.execute(&raw.pool).await?;
    sqlx::raw_sql("ANALYZE bench_full").execute(&raw.pool).await?;
    sqlx::raw_sql("CHECKPOINT").execute(&raw.pool).await?;
    Ok(())
}

/// Of claims at a steady rate, as many as there are until it `ends`.
async fn p99(
    store: &Arc<dyn IdempotencyStore>,
    series: u32,
    ends: impl Fn() -> bool,
) -> anyhow::Result<f64> {
    let mut ticks = time::interval(EVERY);
    ticks.set_missed_tick_behavior(time::MissedTickBehavior::Burst);
    let mut claims = tokio::task::JoinSet::new();
    for intent in intents(series, CLAIMS)? {
        ticks.tick().await;
        if ends() {
            break;
        }
        let store = Arc::clone(store);
        claims.spawn(async move {
            let begun = now();
            claim(&*store, &intent, fingerprint()).await?;
            anyhow::Ok(begun.elapsed())
        });
    }
    anyhow::ensure!(claims.len() >= LEAST_CLAIMS, "it ended after {} claims", claims.len());
    // with bounds: without, what is above the first bucket would be clamped to its lowest value
    let mut latencies = Histogram::<u64>::new_with_bounds(1, LONGEST_MICROS, 3)?;
    while let Some(claimed) = claims.join_next().await {
        latencies.saturating_record(u64::try_from(claimed??.as_micros())?);
    }
    let micros = u32::try_from(latencies.value_at_quantile(0.99))?;
    Ok(f64::from(micros))
}

fn row(what: &str, ours: &[f64], other: Vec<f64>) -> Row {
    Row {
        what: what.to_owned(),
        unit: "us",
        ours: ours.to_vec(),
        other,
        figure: Figure::OursToOther,
        bar: Some(Bar::AtMost(2.0)),
    }
}
