use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use axum::Router;
use idempotency::Sweeper;
use tokio::net::TcpListener;

use crate::{
    app::{self, Layers},
    arguments::Arguments,
    backing::Backing,
    metrics::Metrics,
    sandbox::Sandbox,
    webhooks::Sender,
};

/// The payments API on its address, before it answers.
#[derive(Debug)]
pub struct Service {
    listener: TcpListener,
    address: SocketAddr,
    greeting: String,
    router: Router,
    layers: Layers,
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
        let Backing { store, ledger, outbox } = Backing::open(&arguments.store, &metrics).await?;
        let sweeper = store.sweep_every(SWEEP_PAUSE);
        let layers = Layers::new(store, arguments, &metrics)?;
        let endpoint = arguments.endpoint();
        let sender = endpoint.as_ref().map(|endpoint| Sender::new(Arc::clone(&outbox), endpoint));
        let sender = sender.transpose()?;
        let sandbox = Sandbox::new(ledger, sender.is_some().then_some(outbox));
        let router = app::router(sandbox.clone(), &layers, arguments, &metrics)?;
        let listener = TcpListener::bind(arguments.listen).await.with_context(|| {
            format!("cannot listen on {}: choose another --listen", arguments.listen)
        })?;
        let address = listener.local_addr()?;
        let greeting = arguments.greeting(address);
        Ok(Self { listener, address, greeting, router, layers, sandbox, sender, _sweeper: sweeper })
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
        let sending = self.sender.map(Sender::start);
        let server = axum::serve(self.listener, self.router).with_graceful_shutdown(asked);
        tokio::select! {
            ended = server => ended?,
            () = insisted => {}
        }
        // charges whose client has gone are finished and stored too
        self.layers.drain().await;
        if let Some(sending) = sending {
            sending.close().await;
        }
        Ok(self.sandbox.ledger.effects().await?.len())
    }
}
