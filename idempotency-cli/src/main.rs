#![doc = include_str!("../README.md")]

mod cli;
mod conformance;
mod store_url;
mod url_harness;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Conformance(options) => conformance::run(&options).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
