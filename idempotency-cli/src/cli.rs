use clap::{Args, Parser, Subcommand, ValueEnum};

/// Works with stores of idempotency keys.
#[derive(Debug, Parser)]
#[command(name = "idempotency", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Proves that a store keeps the contract, or shows where it does not.
    Conformance(Conformance),
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The store: `memory:`, or the URL of a server.
    #[arg(required_unless_present = "list")]
    pub(crate) store_url: Option<String>,

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table by clause, then what failed and what was skipped.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// `JUnit` XML.
    Junit,
}
