use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisResult, Value,
    aio::{MultiplexedConnection, PubSub},
    cmd,
};

use crate::address::Address;

/// How to reach the server that takes writes.
#[derive(Clone)]
pub(crate) struct Dial {
    address: Address,
    timeout: Duration,
}

impl Dial {
    pub(crate) const fn new(address: Address, timeout: Duration) -> Self {
        Self { address, timeout }
    }

    pub(crate) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        match &self.address {
            Address::Single(info) => self.open(info.clone()).await,
            Address::Cluster(nodes) => self.first(nodes).await,
            Address::Sentinel { .. } => {
                let mut connection = self.open(self.primary().await?).await?;
                // a Sentinel can be behind: what it names has to be the primary by now
                let role: Vec<Value> = cmd("ROLE").query_async(&mut connection).await?;
                match role.first() {
                    Some(Value::BulkString(role)) if role == b"master" => Ok(connection),
                    _ => {
                        Err((ErrorKind::Io, "the server that Sentinels name is no primary").into())
                    }
                }
            }
        }
    }

    /// A connection that is told what others publish. In a Cluster any node will do.
    pub(crate) async fn subscribe(&self) -> RedisResult<PubSub> {
        let info = match &self.address {
            Address::Single(info) => info.clone(),
            Address::Sentinel { .. } => self.primary().await?,
            Address::Cluster(nodes) => return self.first_subscriber(nodes).await,
        };
        self.within(Client::open(info)?.get_async_pubsub()).await
    }

    async fn first_subscriber(&self, nodes: &[ConnectionInfo]) -> RedisResult<PubSub> {
        let mut failed = (ErrorKind::ClusterConnectionNotFound, "no node is named").into();
        for node in nodes {
            match self.within(Client::open(node.clone())?.get_async_pubsub()).await {
                Ok(subscriber) => return Ok(subscriber),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn first(&self, nodes: &[ConnectionInfo]) -> RedisResult<MultiplexedConnection> {
        let mut failed = (ErrorKind::ClusterConnectionNotFound, "no node is named").into();
        for node in nodes {
            match self.open(node.clone()).await {
                Ok(connection) => return Ok(connection),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn open(&self, info: ConnectionInfo) -> RedisResult<MultiplexedConnection> {
        // the store has a time-out of its own for each operation
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let client = Client::open(info)?;
        self.within(client.get_multiplexed_async_connection_with_config(&config)).await
    }

    /// Asks all Sentinels for the primary and takes the first answer: some of them may be gone, and hang.
    async fn primary(&self) -> RedisResult<ConnectionInfo> {
        let Address::Sentinel { sentinels, service, primary } = &self.address else {
            return Err((ErrorKind::InvalidClientConfig, "no Sentinels are named").into());
        };
        let mut failed = (ErrorKind::EmptySentinelList, "no Sentinel is named").into();
        let asked = sentinels.iter().map(|sentinel| self.ask(sentinel, service));
        let mut answers: FuturesUnordered<_> = asked.collect();
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(Some((host, port))) => {
                    return Ok((**primary).clone().set_addr(at(primary.addr(), host, port)));
                }
                Ok(None) => {
                    let unknown = "the Sentinels know no service of this name";
                    failed = (ErrorKind::MasterNameNotFoundBySentinel, unknown).into();
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn ask(
        &self,
        sentinel: &ConnectionInfo,
        service: &str,
    ) -> RedisResult<Option<(String, u16)>> {
        let mut connection = self.open(sentinel.clone()).await?;
        let mut question = cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(service);
        self.within(question.query_async(&mut connection)).await
    }

    async fn within<T>(&self, work: impl Future<Output = RedisResult<T>> + Send) -> RedisResult<T> {
        tokio::time::timeout(self.timeout, work)
            .await
            .unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
    }
}

/// So many requests can wait to be written before their tasks wait for that. The driver's 50 would have most
/// of some hundred tasks woken twice for each request.
const QUEUE: usize = 1_024;

/// The same way to connect, to another host.
fn at(like: &ConnectionAddr, host: String, port: u16) -> ConnectionAddr {
    match like {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host, port),
    }
}
