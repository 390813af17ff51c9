//! What an operation sends and consumes, counted at a proxy: requests, and write units as the endpoint
//! reports them. A refused write does not report any; it is billed by the size of the item that is there,
//! so a put of the same item stands for it.

use idempotency::Namespace;
use test_servers::dynamodb::{DynamoDbProxy, Seen};
use tokio::runtime::Builder;

use super::{Target, raw, raw::Raw};
use crate::{
    load::{claim, claim_and_complete, fingerprint, intent, replay, response},
    report::{Bar, Figure, Report, Row},
};

const OPERATIONS: u32 = 100;

pub(super) fn run(target: &Target, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(count(target, report))
}

async fn count(target: &Target, report: &mut Report) -> anyhow::Result<()> {
    let proxy = DynamoDbProxy::start(target.address).await?;
    let store = target.connect(proxy.address()).await?;
    let series = std::process::id().wrapping_shl(12).wrapping_sub(1);
    let (fingerprint, response) = (fingerprint(), response());

    proxy.take_seen();
    for number in 0..OPERATIONS {
        claim(&store, &intent(series, number)?, fingerprint).await?;
    }
    let claims = proxy.take_seen();
    let completed = series.wrapping_sub(1);
    for number in 0..OPERATIONS {
        claim_and_complete(&store, &intent(completed, number)?, fingerprint, &response).await?;
    }
    let fresh = proxy.take_seen();
    for number in 0..OPERATIONS {
        replay(&store, &intent(completed, number)?).await?;
    }
    let replays = proxy.take_seen();

    for (what, seen, requests) in
        [("claim", &claims, 1.0), ("claim + complete", &fresh, 2.0), ("replay", &replays, 1.0)]
    {
        let sent = f64::from(u32::try_from(seen.len())?) / f64::from(OPERATIONS);
        report.add(row(format!("consumed: requests a {what}"), "requests", sent, requests));
    }
    report.add(row("consumed: a claim".to_owned(), "units", units(&claims)?, 1.0));
    report.add(row("consumed: a claim + complete".to_owned(), "units", units(&fresh)?, 2.0));
    let place = Namespace::default().storage_key(&intent(completed, 0)?.key);
    let stored = raw::item(store.client(), &target.table, place.as_str()).await?;
    let raw = Raw::like(store.client().clone(), &target.table, &stored);
    let put = raw.units_of(stored).await?;
    report.add(row("consumed: a put of what is replayed".to_owned(), "units", put, 1.0));
    Ok(())
}

/// Units an operation, of replies that all report them.
fn units(seen: &[Seen]) -> anyhow::Result<f64> {
    let units: Option<f64> = seen.iter().map(|seen| seen.units).sum();
    let units = units.ok_or_else(|| anyhow::anyhow!("a reply does not say what it consumed"))?;
    Ok(units / f64::from(OPERATIONS))
}

fn row(what: String, unit: &'static str, ours: f64, most: f64) -> Row {
    let (figure, bar) = (Figure::Ours, Some(Bar::AtMost(most)));
    Row { what, unit, ours: vec![ours], other: Vec::new(), figure, bar }
}
