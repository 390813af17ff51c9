#![doc = include_str!("../README.md")]

mod account;
mod app;
mod arguments;
mod charge;
mod ledger;
mod problem;
mod sandbox;
mod shutdown;
mod source;

use anyhow::{Context, Result};
use clap::Parser;
use tokio::net::TcpListener;

use crate::{arguments::Arguments, sandbox::Sandbox};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    let arguments = Arguments::parse();
    let layer = app::layer(&arguments).await?;
    let sandbox = Sandbox::default();
    let router = app::router(sandbox.clone(), &layer, &arguments);
    let listener = TcpListener::bind(arguments.listen).await.with_context(|| {
        format!("cannot listen on {}: choose another --listen", arguments.listen)
    })?;
    println!("{}", arguments.greeting(listener.local_addr()?));
    let server = axum::serve(listener, router).with_graceful_shutdown(shutdown::asked_for());
    tokio::select! {
        ended = server => ended?,
        // clients that never finish what they send, or what they read
        () = shutdown::insisted_on() => {}
    }
    // charges whose client has gone are finished and stored too
    layer.drain().await;
    let effects = sandbox.ledger.effects().len();
    println!("payments-api has finished all it had begun; effects in the ledger: {effects}");
    Ok(())
}
