use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

use idempotency_core::{
    ErrorKind, Namespace, Operation, Sharing, StoreError, StoreProfile, Survives,
};
use redis::{
    aio::{ConnectionManager, MultiplexedConnection},
    cluster::ClusterClientBuilder,
    cluster_async::ClusterConnection,
};

use crate::{
    RedisStore,
    address::Address,
    error::classify,
    link::{Dial, Dialled, Link},
    replicas::Replicas,
};

/// How a [`RedisStore`] is reached, and its limits.
#[derive(Clone)]
#[must_use = "a builder makes nothing until `connect` or `with_…`"]
pub struct RedisStoreBuilder {
    pub(crate) namespace: Namespace,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) profile: StoreProfile,
    pub(crate) wait_replicas: Option<(NonZeroU32, Duration)>,
    #[cfg(feature = "tokio-rustls-comp")]
    certificates: Option<redis::TlsCertificates>,
}

impl Default for RedisStoreBuilder {
    fn default() -> Self {
        let mut profile = StoreProfile::new("redis");
        profile.remembers_not_started = true;
        profile.expires_by_itself = true;
        profile.sharing = Sharing::Server;
        profile.survives = Survives::ClientCrash;
        Self {
            namespace: Namespace::default(),
            timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(1),
            profile,
            wait_replicas: None,
            #[cfg(feature = "tokio-rustls-comp")]
            certificates: None,
        }
    }
}

impl RedisStoreBuilder {
    /// Keeps the records apart from those of other namespaces; `idempotency` unless told otherwise.
    pub fn namespace(self, namespace: Namespace) -> Self {
        Self { namespace, ..self }
    }

    /// The longest an operation may take, 2 s unless told otherwise. Longer is an error of unknown
    /// effect (C51).
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The longest a connection may take to be made, 1 s unless told otherwise.
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// The longest response in bytes, 1 MiB unless told otherwise.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.profile.max_response_bytes = bytes;
        self
    }

    /// The longest checkpoint in bytes, 64 KiB unless told otherwise.
    pub fn max_checkpoint_bytes(mut self, bytes: usize) -> Self {
        self.profile.max_checkpoint_bytes = bytes;
        self
    }

    /// A claim is acquired only once `replicas` have it, so that it survives a failover to one of
    /// them. Where they do not have it within `timeout`, the claim is refused as `Unavailable`, with
    /// effect unknown: it stays where it is until its lease ends.
    ///
    /// Costs a second round trip, to the replicas. Not with a Cluster, and only with
    /// [`connect`](Self::connect): it needs a connection of its own.
    pub fn wait_replicas(self, replicas: NonZeroU32, timeout: Duration) -> Self {
        Self { wait_replicas: Some((replicas, timeout)), ..self }
    }

    /// For `rediss` URLs: the certificate of an authority that this system does not know, in the place of
    /// those that it knows; a certificate of one's own, where the server asks for one. Both in PEM.
    #[cfg(feature = "tokio-rustls-comp")]
    pub fn tls_certificates(self, certificates: redis::TlsCertificates) -> Self {
        Self { certificates: Some(certificates), ..self }
    }

    /// Connects: `redis://`, `rediss://`, `redis+unix:`, `redis+cluster://HOST,HOST`,
    /// `redis+sentinel://HOST,HOST/SERVICE`, each with the driver's credentials and database.
    ///
    /// # Errors
    /// The URL is refused (`Invalid`), or the server cannot be reached.
    pub async fn connect(self, url: &str) -> Result<RedisStore, StoreError> {
        let address = self.address(url)?;
        let dial = Dial::new(address.clone(), self.connect_timeout);
        let connected = async {
            match address {
                Address::Cluster(nodes) => {
                    let client = ClusterClientBuilder::new(nodes)
                        .connection_timeout(self.connect_timeout)
                        .response_timeout(self.timeout)
                        .overall_response_timeout(None);
                    #[cfg(feature = "tokio-rustls-comp")]
                    let client = match &self.certificates {
                        Some(certificates) => client.certs(certificates.clone()),
                        None => client,
                    };
                    let client = client.build()?;
                    client.get_async_connection().await.map(Link::Cluster)
                }
                Address::Single(_) | Address::Sentinel { .. } => {
                    let dialled = Dialled::new(dial.clone());
                    dialled.connection().await?;
                    Ok(Link::Dialled(Arc::new(dialled)))
                }
            }
        };
        let link = tokio::time::timeout(self.timeout.max(self.connect_timeout), connected)
            .await
            .map_err(|_| {
                let detail = "no connection within the time-out";
                StoreError::new(Operation::Connect, ErrorKind::Timeout, detail).without_effect()
            })?
            .map_err(|error| classify(Operation::Connect, &error).without_effect())?;
        let replicas = match self.wait_replicas {
            None => None,
            Some(_) if matches!(link, Link::Cluster(_)) => {
                let detail = "waiting for replicas is not available with a Cluster";
                let invalid = StoreError::new(Operation::Connect, ErrorKind::Invalid, detail);
                return Err(invalid.without_effect());
            }
            Some((replicas, timeout)) => Some(Replicas::new(dial.clone(), replicas, timeout)),
        };
        Ok(RedisStore::with(self, link, Some(dial), replicas))
    }

    #[cfg_attr(
        not(feature = "tokio-rustls-comp"),
        expect(clippy::unused_self, reason = "without TLS there are no certificates")
    )]
    fn address(&self, url: &str) -> Result<Address, StoreError> {
        let address = Address::parse(url)?;
        #[cfg(feature = "tokio-rustls-comp")]
        let address = match &self.certificates {
            Some(certificates) => address.with_certificates(certificates)?,
            None => address,
        };
        Ok(address)
    }

    /// Uses the application's connection manager. The driver's own time-outs hold as well.
    ///
    /// Such a store cannot tell waiters of other processes that a key has changed, because it knows no
    /// way to subscribe: they poll.
    pub fn with_connection_manager(self, manager: ConnectionManager) -> RedisStore {
        RedisStore::with(self, Link::Manager(manager), None, None)
    }

    /// Uses the application's connection, which is not made anew when it breaks.
    /// Waiters of other processes poll, as with
    /// [`with_connection_manager`](Self::with_connection_manager).
    pub fn with_connection(self, connection: MultiplexedConnection) -> RedisStore {
        RedisStore::with(self, Link::Multiplexed(connection), None, None)
    }

    /// Uses the application's connection to a Cluster. It must not read from replicas: a lookup has to
    /// come from the primary. Waiters of other processes poll, as with
    /// [`with_connection_manager`](Self::with_connection_manager).
    pub fn with_cluster_connection(self, cluster: ClusterConnection) -> RedisStore {
        RedisStore::with(self, Link::Cluster(cluster), None, None)
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStoreBuilder")
            .field("namespace", &self.namespace)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("profile", &self.profile)
            .field("wait_replicas", &self.wait_replicas)
            .finish_non_exhaustive()
    }
}
