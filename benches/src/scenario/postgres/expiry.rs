//! Claims on a full table, and beside sweepers of a full table.

use std::{sync::Arc, time::Duration};

use hdrhistogram::Histogram;
use idempotency::{IdempotencyStore, sqlx};
use tokio::{runtime::Builder, time};

use super::{raw::Raw, with};
use crate::{
    cli::Args,
    driver::now,
    load::{claim, fingerprint, intents},
    report::{Bar, Figure, Report, Row},
};

/// 500 claims a second, for six seconds.
const EVERY: Duration = Duration::from_millis(2);
const CLAIMS: u32 = 3_000;

/// Beyond the time-out of an operation.
const LONGEST_MICROS: u64 = 60_000_000;

const FILL: &str = "INSERT INTO bench_full (key, format, state, token, attempt, retention_ms, \
    fingerprint, first_claimed_at, claimed_at, expires_at, sweep_at, ended_at, response) \
    SELECT $3 || md5(n::text), 1, 3, gen_random_uuid(), 1, 1000, convert_to(repeat('f', 33), 'UTF8'), \
    now(), now(), now() + $2::float8 * interval '1 s', now() + $2::float8 * interval '1 s', now(), \
    convert_to(repeat('r', 300), 'UTF8') FROM generate_series(1, $1::bigint) n";

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let url = with(&args.url, "create=on&table=bench_full&max_connections=8&timeout_ms=20000");
    runtime.block_on(async {
        let connected = idempotency::connect(&url).await?;
        let (store, raw) = (connected.store(), Raw::connect(&args.url, 2).await?);
        sqlx::raw_sql("TRUNCATE bench_full").execute(&raw.pool).await?;
        let series = std::process::id();
        let warm = p99(&store, series.wrapping_add(9)).await?;
        anyhow::ensure!(warm > 0.0, "no claims");
        let empty = p99(&store, series).await?;
        fill(&raw, args.records, 3_600.0, "live/").await?;
        let full = p99(&store, series.wrapping_add(1)).await?;
        report.add(row("expiry: p99 of a claim, table full : empty", full, empty));
        fill(&raw, args.records, -1.0, "gone/").await?;
        let sweep = connected.sweep().ok_or_else(|| anyhow::anyhow!("no sweep"))?;
        let sweeping = tokio::spawn(async move {
            let batch = std::num::NonZeroU32::new(1_000).unwrap_or(std::num::NonZeroU32::MIN);
            let mut removed = 0;
            loop {
                let report = sweep.sweep(batch).await?;
                removed += report.removed;
                if !report.more {
                    return anyhow::Ok(removed);
                }
            }
        });
        let beside = p99(&store, series.wrapping_add(2)).await?;
        report.add(row("expiry: p99 of a claim, beside a sweep : without", beside, full));
        let removed = sweeping.await??;
        anyhow::ensure!(removed >= u64::from(args.records), "{removed} swept");
        Ok(())
    })
}

async fn fill(raw: &Raw, records: u32, left: f64, prefix: &str) -> anyhow::Result<()> {
    let fill = sqlx::query(FILL).bind(i64::from(records)).bind(left).bind(prefix);
    fill.execute(&raw.pool).await?;
    sqlx::raw_sql("ANALYZE bench_full").execute(&raw.pool).await?;
    sqlx::raw_sql("CHECKPOINT").execute(&raw.pool).await?;
    Ok(())
}

async fn p99(store: &Arc<dyn IdempotencyStore>, series: u32) -> anyhow::Result<f64> {
    let mut ticks = time::interval(EVERY);
    ticks.set_missed_tick_behavior(time::MissedTickBehavior::Burst);
    let mut claims = tokio::task::JoinSet::new();
    for intent in intents(series, CLAIMS)? {
        ticks.tick().await;
        let store = Arc::clone(store);
        claims.spawn(async move {
            let begun = now();
            claim(&*store, &intent, fingerprint()).await?;
            anyhow::Ok(begun.elapsed())
        });
    }
    // with bounds: without, what is above the first bucket would be clamped to its lowest value
    let mut latencies = Histogram::<u64>::new_with_bounds(1, LONGEST_MICROS, 3)?;
    while let Some(claimed) = claims.join_next().await {
        latencies.saturating_record(u64::try_from(claimed??.as_micros())?);
    }
    let micros = u32::try_from(latencies.value_at_quantile(0.99))?;
    Ok(f64::from(micros))
}

fn row(what: &str, ours: f64, other: f64) -> Row {
    Row {
        what: what.to_owned(),
        unit: "us",
        ours: vec![ours],
        other: vec![other],
        figure: Figure::OursToOther,
        bar: Some(Bar::AtMost(2.0)),
    }
}
