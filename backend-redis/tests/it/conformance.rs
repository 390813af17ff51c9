//! The whole suite, on one server and on a Cluster.

use std::{net::SocketAddr, time::Duration};

use idempotency_conformance::{
    Aged, Fixture, Harness, HarnessError, RawRecord, Written, unique_namespace,
};
use idempotency_core::{Connected, IdempotencyKey, Namespace, Sharing, StoreProfile, Survives};
use idempotency_redis::{
    RedisStore,
    redis::{AsyncCommands, cluster::ClusterClient},
};
use test_servers::redis::{RedisCluster, RedisServer};

use crate::support::connect;

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

/// Takes `duration` off the expiry of a key, which is the clock of its record.
async fn age(
    connection: &mut impl AsyncCommands,
    place: &str,
    duration: Duration,
) -> Result<Aged, HarnessError> {
    let left: i64 = connection.pttl(place).await?;
    // without an expiry, or without a record
    if left >= 0 {
        let _: bool =
            connection.pexpire(place, left - i64::try_from(duration.as_millis())?).await?;
    }
    Ok(Aged::Done)
}

pub(crate) struct Single(pub(crate) &'static RedisServer);

impl Harness for Single {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let namespace = unique_namespace();
        let store = connect(&self.0.url(), &namespace).await;
        Ok(Fixture::new(store.connected(), namespace))
    }

    fn profile(&self) -> StoreProfile {
        profile()
    }

    async fn age(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        duration: Duration,
    ) -> Result<Aged, HarnessError> {
        let mut connection = crate::support::raw(self.0).await;
        age(&mut connection, namespace.storage_key(key).as_str(), duration).await
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        Ok(Some(connect(&self.0.url(), namespace).await.connected()))
    }

    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let mut connection = crate::support::raw(self.0).await;
        write(&mut connection, namespace, key, raw).await.map(Some)
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.0.address())
    }

    async fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let second = Duration::from_secs(1);
        let store = RedisStore::builder()
            .namespace(namespace.clone())
            .timeout(second)
            .connect(&format!("redis://{address}"))
            .await?;
        Ok(Some(store.connected()))
    }
}

mod single {
    idempotency_conformance::conformance_tests!(crate::conformance::Single(
        crate::support::server()
    ));
}

pub(crate) struct Cluster(pub(crate) &'static RedisCluster);

impl Harness for Cluster {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let namespace = unique_namespace();
        let store = connect(&self.0.url(), &namespace).await;
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
        Ok(Some(connect(&self.0.url(), namespace).await.connected()))
    }

    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let nodes = self.0.nodes().iter().map(RedisServer::url);
        let mut connection = ClusterClient::new(nodes)?.get_async_connection().await?;
        write(&mut connection, namespace, key, raw).await.map(Some)
    }
}

mod clustered {
    idempotency_conformance::conformance_tests!(crate::conformance::Cluster(
        crate::support::cluster()
    ));
}
