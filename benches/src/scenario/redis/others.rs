//! What the store is compared with.

use std::time::Duration;

use bytes::Bytes;
use idempotent::{
    CachedResponse, IdempotencyEntry, IdempotencyKey, Metadata,
    fingerprint::{DefaultFingerprintStrategy, Fingerprint, FingerprintStrategy},
    store::{IdempotencyStore as _, InsertResult, valkey::ValkeyStore},
};
use redis::{Client, Value, aio::MultiplexedConnection, cmd};

use crate::load::{Intent, RESPONSE_BYTES};

const DAY_MS: u64 = 86_400_000;

/// The raw commands, on one connection of the same driver. The first value is as large as ours in
/// progress, the second is the response and nothing else.
#[derive(Clone)]
pub(super) struct Raw {
    connection: MultiplexedConnection,
}

const IN_PROGRESS: &[u8] = &[b'p'; 120];
const RESPONSE: &[u8] = &[b'r'; RESPONSE_BYTES];

impl Raw {
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { connection })
    }

    /// As long as a storage key of ours.
    pub(super) fn key(intent: &Intent) -> String {
        let (scope, key) = (intent.key.scope_name().unwrap_or_default(), intent.key.key());
        format!("rawcommands/{scope}/{key}")
    }

    pub(super) async fn claim(&self, key: &str) -> anyhow::Result<()> {
        let mut set = cmd("SET");
        set.arg(key).arg(IN_PROGRESS).arg("NX").arg("PX").arg(DAY_MS);
        let set: Value = set.query_async(&mut self.connection.clone()).await?;
        anyhow::ensure!(set == Value::Okay, "{set:?}");
        Ok(())
    }

    pub(super) async fn complete(&self, key: &str) -> anyhow::Result<()> {
        let mut set = cmd("SET");
        set.arg(key).arg(RESPONSE).arg("PX").arg(DAY_MS);
        Ok(set.exec_async(&mut self.connection.clone()).await?)
    }

    pub(super) async fn get(&self, key: &str) -> anyhow::Result<()> {
        let value: Vec<u8> = cmd("GET").arg(key).query_async(&mut self.connection.clone()).await?;
        anyhow::ensure!(value.len() == RESPONSE_BYTES, "{} bytes", value.len());
        Ok(())
    }

    /// A part of `INFO`.
    pub(super) async fn info(&self, section: &str) -> anyhow::Result<String> {
        let mut info = cmd("INFO");
        Ok(info.arg(section).query_async(&mut self.connection.clone()).await?)
    }

    pub(super) async fn reset_counters(&self) -> anyhow::Result<()> {
        let mut reset = cmd("CONFIG");
        Ok(reset.arg("RESETSTAT").exec_async(&mut self.connection.clone()).await?)
    }
}

/// The number after `name` in a part of `INFO`.
pub(super) fn number(info: &str, name: &str) -> f64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(f64::NAN)
}

/// The Valkey store of the crate `idempotent`, 0.3.0.
pub(super) struct Idempotent {
    store: ValkeyStore,
    fingerprint: Fingerprint,
}

impl Idempotent {
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let client = idempotent_client(url)?;
        let store = ValkeyStore::with_prefix(client, Some("idempotent")).await?;
        Ok(Self { store, fingerprint: DefaultFingerprintStrategy.compute("/charges", b"body") })
    }

    pub(super) fn key(intent: &Intent) -> anyhow::Result<IdempotencyKey> {
        let (scope, key) = (intent.key.scope_name().unwrap_or_default(), intent.key.key());
        Ok(IdempotencyKey::new(format!("{scope}{key}"))?)
    }

    pub(super) async fn claim_and_complete(
        &self,
        key: &IdempotencyKey,
        response: &Bytes,
    ) -> anyhow::Result<()> {
        let entry = IdempotencyEntry::new(self.fingerprint, Duration::from_hours(24));
        let InsertResult::Claimed { fencing_token } =
            self.store.try_insert(key, entry.clone()).await?
        else {
            anyhow::bail!("the key was there")
        };
        let response = CachedResponse {
            status_code: 201,
            metadata: Metadata::default(),
            body: response.clone(),
        };
        let completed = entry.complete(response);
        Ok(self.store.complete(key, completed, fencing_token).await?)
    }
}

/// It uses the same driver.
fn idempotent_client(url: &str) -> anyhow::Result<Client> {
    Ok(Client::open(url)?)
}
