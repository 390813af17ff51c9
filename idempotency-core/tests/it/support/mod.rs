//! What the tests share.

mod events;
mod faulty;
mod records;

use std::{future::Future, time::Duration};

pub use events::Events;
pub use faulty::{Faulty, Plan};
use idempotency_core::{
    CasStore, Classify, Disposition, Fingerprint, Idempotency, IdempotencyBuilder, IdempotencyKey,
    IdempotencyStore, Lease, Outcome, Retention,
};
pub use records::MapRecords;
use serde::{Deserialize, Serialize};

/// The reference store: the machine over a map, one compare-and-swap at a time.
pub type Store = CasStore<MapRecords>;

/// An error that says itself what is final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refused {
    Final,
    Passing,
    NotStarted,
    Perhaps,
}

impl Classify for Refused {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Final => Disposition::Store,
            Self::Passing => Disposition::Failed,
            Self::NotStarted => Disposition::NotStarted,
            Self::Perhaps => Disposition::Unknown,
        }
    }
}

pub type Out = Outcome<u32, Refused>;

pub fn store() -> Store {
    CasStore::new(MapRecords::default())
}

pub fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey::new("scope", name).unwrap()
}

pub fn request(body: &str) -> Fingerprint {
    Fingerprint::of_bytes(body)
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn lease(millis: u64) -> Lease {
    Lease::new(ms(millis)).unwrap()
}

pub fn retention(millis: u64) -> Retention {
    Retention::new(ms(millis)).unwrap()
}

/// An executor with a lease of 3 s (heartbeat 1 s) and a retention of an hour.
pub fn builder(store: impl IdempotencyStore + 'static) -> IdempotencyBuilder {
    Idempotency::builder(store).lease(lease(3_000)).retention(retention(3_600_000))
}

pub fn executor(store: impl IdempotencyStore + 'static) -> Idempotency {
    builder(store).build().unwrap()
}

/// Runs `work` that succeeds with the number of its attempt.
pub async fn run_ok(idempotency: &Idempotency, name: &str) -> Out {
    idempotency
        .run(&key(name), request("body"), async |attempt| Ok(attempt.number().get()))
        .await
        .unwrap()
}

/// Polls until `condition` holds; fails after ten seconds of the runtime's clock.
pub async fn eventually<F, Fut>(what: &str, mut condition: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let poll = async {
        while !condition().await {
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(ms(10_000), poll).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// How many tasks the runtime has.
pub fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// `reduced` in the default run, `full` in the full one.
pub fn count(reduced: u32, full: u32) -> u32 {
    if std::env::var("IDEMPOTENCY_TEST").is_ok_and(|v| v == "full") { full } else { reduced }
}
