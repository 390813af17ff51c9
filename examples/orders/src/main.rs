#![doc = include_str!("../README.md")]

mod operation;
mod report;
mod shop;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use idempotency::{Idempotency, Lease};

use crate::{operation::Line, report::Report, shop::Shop};

/// Executes each operation once, whatever is repeated.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Operations, one JSON object a line; `-` for standard input [default: the sample]
    file: Option<String>,

    /// Where the records are kept
    #[arg(long, default_value = "memory:")]
    store: String,

    /// How long a claim holds without renewal, in milliseconds
    #[arg(long, default_value_t = 1_000)]
    lease_ms: u64,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let lease = Lease::new(Duration::from_millis(arguments.lease_ms)).context("--lease-ms")?;
    let connected = idempotency::connect(&arguments.store).await.context("--store")?;
    let idempotency = Idempotency::builder(connected).lease(lease).build()?;
    let report = serve(&Shop::new(idempotency), input(arguments.file.as_deref())?).await?;
    print!("{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn input(file: Option<&str>) -> Result<Box<dyn BufRead + Send>> {
    Ok(match file {
        None => Box::new(Cursor::new(include_str!("../sample.jsonl"))),
        Some("-") => Box::new(BufReader::new(io::stdin())),
        Some(path) => Box::new(BufReader::new(
            File::open(path).with_context(|| format!("cannot read the operations in {path}"))?,
        )),
    })
}

/// Takes the lines one after the other, those marked as parallel beside the one before.
async fn serve(shop: &Shop, input: Box<dyn BufRead + Send>) -> Result<Report> {
    let mut report = Report::default();
    let mut running: Vec<(usize, tokio::task::JoinHandle<report::Row>)> = Vec::new();
    for (index, text) in input.lines().enumerate() {
        let text = text.context("cannot read the operations")?;
        if text.trim().is_empty() {
            continue;
        }
        let line = Line::parse(&text);
        if !line.as_ref().is_ok_and(|line| line.parallel) {
            report.collect(&mut running).await?;
        }
        let shop = shop.clone();
        running.push((index + 1, tokio::spawn(async move { shop.serve(line).await })));
    }
    report.collect(&mut running).await?;
    ensure!(!report.is_empty(), "there are no operations in the input");
    report.close(shop.ledger());
    Ok(report)
}
