//! A closed-loop load driver: what a store costs, side by side with the raw operations it is made of.
//!
//! `cargo run --release -p benches -- memory:` prints a table of medians and ratios, with the bars
//! that the store has to meet. `--format json` prints the same with every run.

mod cli;
mod clients;
mod driver;
mod load;
mod report;
mod scenario;

use clap::Parser;

fn main() -> anyhow::Result<()> {
    let args = cli::Args::parse();
    let report = scenario::run(&args)?;
    println!("{}", report.show(args.format)?);
    Ok(())
}
