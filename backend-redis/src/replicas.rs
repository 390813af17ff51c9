use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use idempotency_core::{ErrorKind, Operation, StoreError};
use redis::{RedisResult, pipe};
use tokio::sync::Mutex;

use crate::{
    error::classify,
    link::{Dial, Dialled},
};

/// Waits until replicas have what the primary has acknowledged, on a connection of its own: `WAIT`
/// keeps its connection busy.
pub(crate) struct Replicas {
    connection: Dialled,
    at_least: NonZeroU32,
    timeout: Duration,
    asked: AtomicU64,
    /// Everybody who asked up to this one has been answered.
    covered: Mutex<u64>,
}

impl Replicas {
    pub(crate) fn new(dial: Dial, at_least: NonZeroU32, timeout: Duration) -> Self {
        Self {
            connection: Dialled::new(dial),
            at_least,
            timeout,
            asked: AtomicU64::new(0),
            covered: Mutex::new(0),
        }
    }

    /// Ends when the replicas have all that was acknowledged before the call. One wait serves all who
    /// asked before it began.
    pub(crate) async fn have_it(&self) -> Result<(), StoreError> {
        let mine = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut covered = self.covered.lock().await;
        if *covered >= mine {
            return Ok(());
        }
        let all = self.asked.load(Ordering::Acquire);
        let have_it = match self.wait().await {
            Ok(have_it) => have_it,
            Err(error) => {
                self.connection.give_up();
                return Err(classify(Operation::Claim, &error));
            }
        };
        if have_it < self.at_least.get() {
            let detail = format!(
                "{have_it} replicas have the claim after {:?}, {} are asked for",
                self.timeout, self.at_least
            );
            return Err(StoreError::new(Operation::Claim, ErrorKind::Unavailable, detail));
        }
        *covered = all;
        Ok(())
    }

    /// `WAIT` is about what its own connection has done so far. A command that propagates to replicas
    /// makes that everything up to now.
    async fn wait(&self) -> RedisResult<u32> {
        let mut connection = self.connection.connection().await?;
        let timeout = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut commands = pipe();
        commands.cmd("PUBLISH").arg("idempotency:replicas").arg("").ignore();
        commands.cmd("WAIT").arg(self.at_least.get()).arg(timeout);
        let (have_it,) = commands.query_async(&mut connection).await?;
        Ok(have_it)
    }
}
