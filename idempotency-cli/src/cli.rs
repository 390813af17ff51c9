use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{
    args::StoreAddress,
    doctor::Doctor,
    ended::EXIT_CODES,
    generate::{Completions, ManPages},
    list::List,
    lookup::Lookup,
    remove::Remove,
    schema::Schema,
    settle::Settle,
    storm::{Storm, StormWorker},
    sweep::Sweep,
};

/// Works with stores of idempotency keys.
#[derive(Parser)]
#[command(name = "idempotency", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Shows the record of a key, or writes its stored answer to a file.
    Lookup(Lookup),
    /// Lists records.
    List(List),
    /// Declares the outcome of an abandoned attempt: shows what it will do, and asks.
    Settle(Settle),
    /// Removes the record of a key, if it is still the one that was looked up: shows it, and asks.
    Remove(Remove),
    /// Removes what is past its retention, in batches, beside live traffic.
    Sweep(Sweep),
    /// Prints what sets the store up, or sets it up.
    Schema(Schema),
    /// Looks for settings of the server that break the contract or weaken it.
    Doctor(Doctor),
    /// Proves that a store keeps the contract, or shows where it does not.
    Conformance(Conformance),
    /// Merchants pay through a faulty network, without keys and with them: what was charged twice?
    Storm(Storm),
    /// One worker process of a storm.
    #[command(hide = true)]
    StormWorker(StormWorker),
    /// Prints a script that completes this program's arguments.
    Completions(Completions),
    /// Prints the man page, or writes all of them.
    Man(ManPages),
}

#[derive(Args)]
pub(crate) struct Conformance {
    /// The store: `memory:`, or the URL of a server; `env:NAME` takes it from the environment.
    #[arg(required_unless_present = "list")]
    pub(crate) store_url: Option<StoreAddress>,

    /// Only cases whose name contains this, or whose clause it is: `takeover`, `C07`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) filter: String,

    /// Makes the run with this seed again. Random unless given.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// How the report is written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,

    /// Lists the cases with their clauses, and runs none.
    #[arg(long)]
    pub(crate) list: bool,

    /// Five times as many rounds.
    #[arg(long)]
    pub(crate) thorough: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table by clause, then what failed and what was skipped.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// `JUnit` XML.
    Junit,
}
