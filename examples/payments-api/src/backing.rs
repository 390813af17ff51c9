use std::sync::Arc;

use anyhow::{Context, Result};
use idempotency::{Connected, PostgresStore};

use crate::{
    ledger::{Ledger, MemoryLedger, PostgresLedger},
    metrics::Metrics,
    webhooks::{MemoryOutbox, Outbox, PostgresOutbox},
};

/// Where the keys, the ledger and the outbox are: in one database where that is possible.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) store: Connected,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) outbox: Arc<dyn Outbox>,
}

impl Backing {
    /// Its sweeps are counted.
    pub(crate) async fn open(url: &str, metrics: &Metrics) -> Result<Self> {
        let backing = Self::unmetered(url).await?;
        Ok(Self { store: metrics.observer().meter(backing.store), ..backing })
    }

    async fn unmetered(url: &str) -> Result<Self> {
        let is_postgres = url.starts_with("postgres://") || url.starts_with("postgresql://");
        if is_postgres {
            let store = idempotency::connect_postgres(url).await.context("--store")?;
            return Self::in_postgres(store).await;
        }
        let store = idempotency::connect(url).await.context("--store")?;
        let outbox = Arc::new(MemoryOutbox::new());
        let ledger = MemoryLedger::new(Arc::clone(&outbox));
        Ok(Self { store, ledger: Arc::new(ledger), outbox })
    }

    async fn in_postgres(store: PostgresStore) -> Result<Self> {
        let connected = store.connected();
        let outbox = PostgresOutbox::open(store.clone()).await;
        let outbox = Arc::new(outbox.context("the table of the outbox cannot be set up")?);
        let ledger = PostgresLedger::open(store, Arc::clone(&outbox)).await;
        let ledger = ledger.context("the tables of the ledger cannot be set up")?;
        Ok(Self { store: connected, ledger: Arc::new(ledger), outbox })
    }
}
