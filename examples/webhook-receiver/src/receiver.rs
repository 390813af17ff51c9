use std::{future::Future, net::SocketAddr};

use anyhow::{Context, Result};
use axum::Router;
use idempotency::{Idempotency, tower::IdempotencyLayer};
use tokio::net::TcpListener;

use crate::{app, arguments::Arguments};

/// The receiver on its address, before it answers.
#[derive(Debug)]
pub struct Receiver {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    layers: Vec<IdempotencyLayer>,
}

impl Receiver {
    /// Connects to the store and takes the address.
    ///
    /// # Errors
    /// The store or the address cannot be had, or a secret cannot be used. Nothing was done.
    pub async fn bind(arguments: &Arguments) -> Result<Self> {
        let store = idempotency::connect(&arguments.store).await.context("--store")?;
        let idempotency = Idempotency::builder(store).lease(arguments.lease).build();
        let (router, layers) = app::router(&idempotency.context("--lease")?, arguments)?;
        let listener = TcpListener::bind(arguments.listen).await.with_context(|| {
            format!("cannot listen on {}: choose another --listen", arguments.listen)
        })?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, router, layers })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a user needs to know.
    pub fn greeting(&self) -> String {
        let address = self.address;
        format!(
            "webhook-receiver takes events at http://{address}/webhooks/standard and …/webhooks/stripe, \
             where a secret was given;\nwhat was handled is at http://{address}/inbox"
        )
    }

    /// Answers until `asked` ends, then finishes what it has begun.
    ///
    /// Senders that never finish what they send, or what they read, are waited for until `insisted`
    /// ends.
    ///
    /// # Errors
    /// The server broke. What had begun may not be finished.
    pub async fn serve<A, I>(self, asked: A, insisted: I) -> Result<()>
    where
        A: Future<Output = ()> + Send + 'static,
        I: Future<Output = ()> + Send,
    {
        let server = axum::serve(self.listener, self.router).with_graceful_shutdown(asked);
        tokio::select! {
            ended = server => ended?,
            () = insisted => {}
        }
        // deliveries whose sender has gone are finished and stored too
        for layer in &self.layers {
            layer.drain().await;
        }
        Ok(())
    }
}
