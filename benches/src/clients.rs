//! Closed loops of so many clients.

use std::{future::Future, sync::Arc};

use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    driver::{Taken, timed},
    load::Intent,
};

/// Every intent once, shared out among so many clients, each of which has a number and does one after the other.
pub(crate) fn all<F, Fut>(
    runtime: &Runtime,
    intents: &Arc<Vec<Intent>>,
    clients: usize,
    work: F,
) -> anyhow::Result<Taken>
where
    F: Fn(usize, Intent) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send,
{
    let operations = u32::try_from(intents.len())?;
    let mut ended = Ok(());
    let taken = timed(operations, || {
        ended = runtime.block_on(async {
            let mut running = JoinSet::new();
            for client in 0..clients {
                let (intents, work) = (Arc::clone(intents), work.clone());
                running.spawn(async move {
                    for intent in intents.iter().skip(client).step_by(clients) {
                        work(client, intent.clone()).await?;
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(client) = running.join_next().await {
                client??;
            }
            anyhow::Ok(())
        });
    });
    ended.map(|()| taken)
}
