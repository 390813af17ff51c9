use std::{future::Future, net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use axum::Router;
use idempotency::{Sweeper, tower::IdempotencyLayer};
use tokio::net::TcpListener;

use crate::{
    app,
    arguments::Arguments,
    backing::Backing,
    metrics::Metrics,
    sandbox::Sandbox,
    webhooks::{Outbox, Sender},
};

/// The payments API on its address, before it answers.
#[derive(Debug)]
pub struct Service {
    listener: TcpListener,
    address: SocketAddr,
    greeting: String,
    router: Router,
    layer: IdempotencyLayer,
    sandbox: Sandbox,
    sender: Option<Sender>,
    _sweeper: Option<Sweeper>,
}

/// Between two looks for records past their retention.
const SWEEP_PAUSE: Duration = Duration::from_mins(1);

impl Service {
    /// Connects to the store and takes the address.
    ///
    /// # Errors
    /// The store or the address cannot be had. Nothing was done.
    pub async fn bind(arguments: &Arguments) -> Result<Self> {
        let metrics = Metrics::new()?;
        let Backing { store, ledger } = Backing::open(&arguments.store, &metrics).await?;
        let sweeper = store.sweep_every(SWEEP_PAUSE);
        let layer = app::layer(store, arguments, &metrics)?;
        let endpoint = arguments.endpoint();
        let outbox = endpoint.is_some().then(Outbox::new);
        let sender = endpoint.zip(outbox.clone());
        let sender = sender.map(|(endpoint, outbox)| Sender::new(outbox, endpoint)).transpose()?;
        let sandbox = Sandbox::new(ledger, outbox);
        let router = app::router(sandbox.clone(), &layer, arguments, &metrics)?;
        let listener = TcpListener::bind(arguments.listen).await.with_context(|| {
            format!("cannot listen on {}: choose another --listen", arguments.listen)
        })?;
        let address = listener.local_addr()?;
        let greeting = arguments.greeting(address);
        Ok(Self { listener, address, greeting, router, layer, sandbox, sender, _sweeper: sweeper })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a user needs to know, with something to paste.
    pub fn greeting(&self) -> &str {
        &self.greeting
    }

    /// Answers until `asked` ends, then finishes what it has begun; how many effects are in the ledger.
    ///
    /// Clients that never finish what they send, or what they read, are waited for until `insisted`
    /// ends.
    ///
    /// # Errors
    /// The server broke, and what had begun may not be finished; or the ledger cannot be read any more.
    pub async fn serve<A, I>(self, asked: A, insisted: I) -> Result<usize>
    where
        A: Future<Output = ()> + Send + 'static,
        I: Future<Output = ()> + Send,
    {
        if let Some(sender) = &self.sender {
            sender.start();
        }
        let server = axum::serve(self.listener, self.router).with_graceful_shutdown(asked);
        tokio::select! {
            ended = server => ended?,
            () = insisted => {}
        }
        // charges whose client has gone are finished and stored too
        self.layer.drain().await;
        if let Some(sender) = &self.sender {
            let undelivered = sender.close().await;
            if undelivered > 0 {
                tracing::warn!(undelivered, "webhooks are lost with the memory of this process");
            }
        }
        Ok(self.sandbox.ledger.effects().await?.len())
    }
}
