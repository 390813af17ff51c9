#![doc = include_str!("../README.md")]

mod args;
mod capability;
mod cli;
mod conformance;
mod console;
mod doctor;
#[cfg(test)]
mod documented;
mod ended;
mod generate;
mod list;
mod lookup;
mod progress;
mod record;
mod redact;
mod remove;
mod schema;
mod seen;
mod settle;
mod store_url;
mod storm;
mod sweep;
mod url_harness;

use std::{env, io, process::ExitCode};

use clap::Parser;
use idempotency::{ConnectError, Connected};
use tracing_subscriber::filter::LevelFilter;

use crate::{
    args::StoreArg,
    cli::{Cli, Command},
    console::Console,
    ended::Ended,
};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    // what a store warns of while it works, such as records that it cannot read
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::WARN)
        .with_writer(io::stderr)
        .without_time()
        .with_target(false)
        .init();
    match run(&cli.command) {
        Ok(ended) => ended.into(),
        Err(error) => ended::fail(&error),
    }
}

/// Help, or what is wrong with the arguments; a URL among them comes back without its password.
fn explain(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        error.exit();
    }
    let arguments = env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    console::note(redact::redact(&error.render().to_string(), arguments).trim_end());
    ExitCode::from(2)
}

fn run(command: &Command) -> anyhow::Result<Ended> {
    let (mut out, mut answers) = (io::stdout(), io::BufReader::new(io::stdin()));
    let answers = console::is_terminal().then_some(&mut answers as _);
    let mut console = Console::new(&mut out, answers);
    // a storm makes its own runtime: on `memory:` it moves the clock
    if let Command::Storm(options) = command {
        return storm::run(options, &mut console);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(carry_out(command, &mut console))
}

async fn carry_out(command: &Command, console: &mut Console<'_>) -> anyhow::Result<Ended> {
    match command {
        Command::Lookup(options) => {
            lookup::run(options, &connect(&options.store).await?, console).await
        }
        Command::List(options) => {
            list::run(options, &connect(&options.store).await?, console).await
        }
        Command::Settle(options) => {
            settle::run(options, &connect(&options.store).await?, console).await
        }
        Command::Remove(options) => {
            remove::run(options, &connect(&options.store).await?, console).await
        }
        Command::Sweep(options) => {
            sweep::run(options, &connect(&options.store).await?, console).await
        }
        Command::Schema(options) => {
            schema::run(options, &connect_unchecked(&options.store).await?, console).await
        }
        Command::Doctor(options) => {
            doctor::run(options, &connect_unchecked(&options.store).await?, console).await
        }
        Command::Conformance(options) => conformance::run(options, console).await,
        Command::Storm(options) => storm::run(options, console),
        Command::StormWorker(options) => storm::work(options).await,
        Command::Completions(options) => generate::completions(options, console),
        Command::Man(options) => generate::man(options, console),
    }
}

async fn connect(store: &StoreArg) -> Result<Connected, ConnectError> {
    idempotency::connect(store.store.as_str()).await
}

/// For the verbs that work on a store that is not set up yet.
async fn connect_unchecked(store: &StoreArg) -> Result<Connected, ConnectError> {
    idempotency::connect_unchecked(store.store.as_str()).await
}

#[cfg(test)]
mod tests;
