//! `idempotency storm-worker`: one worker process of a storm, which only a storm starts.

use std::{env, io::Write as _, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use clap::Args;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::sync::CancellationToken;

use super::{
    fleet::{Line, Request},
    ledger::Ledger,
    shop::Shop,
};
use crate::ended::Ended;

/// Holds the store's URL.
pub(super) const STORE_VARIABLE: &str = "IDEMPOTENCY_STORM_STORE";

#[derive(Args)]
pub(crate) struct StormWorker {
    /// The ledger: a file that all workers append to.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,

    /// Of a claim.
    #[arg(long, value_name = "NUMBER")]
    lease_ms: u64,
}

/// Serves until its standard input ends, or until it is killed.
pub(crate) async fn run(options: &StormWorker) -> anyhow::Result<Ended> {
    let url = env::var(STORE_VARIABLE).context("only a storm starts a worker")?;
    let ledger = Ledger::shared(&options.ledger).context("opening the ledger")?;
    let lease = Duration::from_millis(options.lease_ms);
    let shop = Arc::new(Shop::new(idempotency::connect(&url).await?, ledger, lease)?);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let Request { id, order } = serde_json::from_str(&line)?;
        let shop = Arc::clone(&shop);
        tokio::spawn(async move {
            let crash = CancellationToken::new();
            tokio::select! {
                biased;
                () = crash.cancelled() => {
                    say(&Line::Crashes);
                    // the claim stays held, as at a crash, until this process is killed
                    std::future::pending::<()>().await;
                }
                answer = shop.handle(order, &crash) => say(&Line::Answered { id, answer }),
            }
        });
    }
    Ok(Ended::Done)
}

/// One write, so that lines of several requests never mix.
fn say(line: &Line) {
    let Ok(mut text) = serde_json::to_vec(line) else {
        return;
    };
    text.push(b'\n');
    let mut out = std::io::stdout().lock();
    // without a parent there is nobody to tell
    let _told = out.write_all(&text).and_then(|()| out.flush());
}
