//! The program: it listens until Ctrl-C.

use anyhow::Result;
use clap::Parser;
use webhook_receiver::{Arguments, Receiver};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    let receiver = Receiver::bind(&Arguments::parse()).await?;
    println!("{}", receiver.greeting());
    receiver.serve(async { _ = tokio::signal::ctrl_c().await }).await
}
