//! The `DynamoDB` store beside raw requests of the same size through the same client. `dynamodb:` alone
//! starts an emulator inside this process; `dynamodb://TABLE?endpoint=http://…` takes one that runs
//! elsewhere, whose CPU time is then not in the figures. The records are left: use a table of its own.

mod consumed;
mod raw;
mod throughput;

use std::net::SocketAddr;

use anyhow::Context;
use idempotency::DynamoDbStore;
use test_servers::dynamodb::DynamoDbEmulator;
use url::Url;

use super::http;
use crate::{cli::Args, report::Report};

pub(super) fn run(args: &Args) -> anyhow::Result<Report> {
    let (_emulator, url) = match args.url.as_str() {
        "dynamodb:" => {
            let emulator = DynamoDbEmulator::start()?;
            let url = emulator.url("idempotency-benches");
            (Some(emulator), url)
        }
        url => (None, url.to_owned()),
    };
    let target = Target::parse(&url)?;
    let mut report = Report::default();
    throughput::run(args, &target, &mut report)?;
    if args.wants("consumed") {
        consumed::run(&target, &mut report)?;
    }
    let joint = if url.contains('?') { '&' } else { '?' };
    let args = Args { url: format!("{url}{joint}create=on&timeout_ms=20000"), ..args.clone() };
    http::run(&args, &mut report)?;
    Ok(report)
}

/// A table, and where it is.
struct Target {
    table: String,
    address: SocketAddr,
}

impl Target {
    fn parse(url: &str) -> anyhow::Result<Self> {
        const SHAPE: &str = "`dynamodb:`, or `dynamodb://TABLE?endpoint=http://HOST:PORT`";
        let url = Url::parse(url)?;
        let table = url.host_str().context(SHAPE)?.to_owned();
        let endpoint = url.query_pairs().find(|(name, _)| name == "endpoint").context(SHAPE)?.1;
        let endpoint = Url::parse(&endpoint).context(SHAPE)?;
        anyhow::ensure!(endpoint.scheme() == "http", SHAPE);
        let address = endpoint.socket_addrs(|| None)?.pop().context(SHAPE)?;
        Ok(Self { table, address })
    }

    /// The store on its table, through this address.
    async fn connect(&self, address: SocketAddr) -> anyhow::Result<DynamoDbStore> {
        let store = DynamoDbStore::builder(&self.table)?
            .timeout(std::time::Duration::from_secs(20))
            .endpoint(format!("http://{address}"))
            .create(true);
        Ok(store.connect().await?)
    }
}
