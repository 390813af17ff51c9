//! The program: it listens until it is asked to end.

mod shutdown;

use anyhow::Result;
use clap::Parser;
use payments_api::{Arguments, Service};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    let service = Service::bind(&Arguments::parse()).await?;
    println!("{}", service.greeting());
    let effects = service.serve(shutdown::asked_for(), shutdown::insisted_on()).await?;
    println!("payments-api has finished all it had begun; effects in the ledger: {effects}");
    Ok(())
}
