//! The whole suite, on one server and on a Cluster.

use std::net::SocketAddr;

use idempotency_conformance::{
    Fixture, Harness, HarnessError, RawRecord, Written, unique_namespace,
};
use idempotency_core::{Connected, IdempotencyKey, Namespace, Sharing, StoreProfile, Survives};
use idempotency_redis::{
    RedisStore,
    redis::{AsyncCommands, cluster::ClusterClient},
};

use crate::support::{cluster, connect, server};

fn profile() -> StoreProfile {
    let mut profile = StoreProfile::new("redis");
    profile.remembers_not_started = true;
    profile.expires_by_itself = true;
    profile.sharing = Sharing::Server;
    profile.survives = Survives::ClientCrash;
    profile
}

/// Puts something at the place of a key, past the store.
async fn write(
    connection: &mut impl AsyncCommands,
    namespace: &Namespace,
    key: &IdempotencyKey,
    raw: RawRecord<'_>,
) -> Result<Written, HarnessError> {
    let place = |key| namespace.storage_key(key).as_str().to_owned();
    let stored = match raw {
        RawRecord::RecordOf(other) => place(other),
        _ => place(key),
    };
    let stored: Vec<u8> = connection.get(stored).await?;
    let value = match raw {
        RawRecord::Foreign => b"{\"visits\": 7}".to_vec(),
        RawRecord::Truncated => stored.get(..100).ok_or("no record")?.to_vec(),
        RawRecord::NewerFormat => {
            let mut value = stored;
            *value.get_mut(3).ok_or("no record")? = 200;
            value
        }
        RawRecord::RecordOf(_) => stored,
    };
    let () = connection.set(place(key), value).await?;
    Ok(Written::Done)
}

struct Single;

impl Harness for Single {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let namespace = unique_namespace();
        let store = connect(&server().url(), &namespace).await;
        Ok(Fixture::new(store.connected(), namespace))
    }

    fn profile(&self) -> StoreProfile {
        profile()
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        Ok(Some(connect(&server().url(), namespace).await.connected()))
    }

    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let mut connection = crate::support::raw(server()).await;
        write(&mut connection, namespace, key, raw).await.map(Some)
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(server().address())
    }

    async fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let second = std::time::Duration::from_secs(1);
        let store = RedisStore::builder()
            .namespace(namespace.clone())
            .timeout(second)
            .connect(&format!("redis://{address}"))
            .await?;
        Ok(Some(store.connected()))
    }
}

mod single {
    idempotency_conformance::conformance_tests!(crate::conformance::Single);
}

struct Cluster;

impl Harness for Cluster {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let namespace = unique_namespace();
        let store = connect(&cluster().url(), &namespace).await;
        Ok(Fixture::new(store.connected(), namespace))
    }

    fn profile(&self) -> StoreProfile {
        profile()
    }

    /// A proxy stands before one server; a Cluster tells its clients of the others.
    fn leaves_out(&self) -> &'static [idempotency_conformance::Hook] {
        &[idempotency_conformance::Hook::Server]
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        Ok(Some(connect(&cluster().url(), namespace).await.connected()))
    }

    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let nodes = cluster().nodes().iter().map(|node| node.url());
        let mut connection = ClusterClient::new(nodes)?.get_async_connection().await?;
        write(&mut connection, namespace, key, raw).await.map(Some)
    }
}

mod clustered {
    idempotency_conformance::conformance_tests!(crate::conformance::Cluster);
}
