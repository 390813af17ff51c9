//! The program: it listens until it is asked to end.

mod shutdown;

use anyhow::Result;
use clap::Parser;
use webhook_receiver::{Arguments, Receiver};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    let receiver = Receiver::bind(&Arguments::parse()).await?;
    println!("{}", receiver.greeting());
    receiver.serve(shutdown::asked_for(), shutdown::insisted_on()).await?;
    println!("webhook-receiver has finished all it had begun");
    Ok(())
}
