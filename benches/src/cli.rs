use clap::{Parser, ValueEnum};

/// Measures a store side by side with the raw operations it is made of.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// The store, by URL: `memory:`, `redis://127.0.0.1`; `dynamodb:` alone starts an emulator
    pub(crate) url: String,
    /// How to print the figures.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// How many times each pair is run, alternating.
    #[arg(long, default_value_t = 5)]
    pub(crate) runs: usize,
    /// How many keys a run uses.
    #[arg(long, default_value_t = 200_000)]
    pub(crate) keys: u32,
    /// How many records the measurements of a full store use.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) records: u32,
    /// Run only the parts whose name contains this.
    #[arg(long)]
    pub(crate) only: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

impl Args {
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| part.contains(only))
    }
}
