//! The way to the servers.

mod dial;
mod dialled;

use std::{fmt, sync::Arc};

use redis::{
    Cmd, Pipeline, RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, ConnectionManager, MultiplexedConnection},
    cluster_async::ClusterConnection,
};

pub(crate) use self::{dial::Dial, dialled::Dialled};
use crate::{error::is_unknown_script, script::Script};

/// One connection (one a node, in a Cluster) that all tasks share.
#[derive(Clone)]
pub(crate) enum Link {
    /// Made and renewed here.
    Dialled(Arc<Dialled>),
    /// The application's. It renews itself.
    Manager(ConnectionManager),
    /// The application's. It is not renewed.
    Multiplexed(MultiplexedConnection),
    /// It finds the nodes, and sends again what a node did not answer.
    Cluster(ClusterConnection),
}

impl Link {
    pub(crate) async fn command(&self, command: &Cmd) -> RedisResult<Value> {
        command.query_async(&mut self.handle().await?).await
    }

    /// Sends all commands at once. Each has its own result.
    pub(crate) async fn pipeline(
        &self,
        commands: &Pipeline,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        commands.query_async(&mut self.handle().await?).await
    }

    async fn handle(&self) -> RedisResult<Handle> {
        Ok(match self {
            Self::Dialled(dialled) => Handle::Multiplexed(match dialled.current() {
                Some(connection) => connection,
                // boxed, so that every operation is not as large as one that dials
                None => Box::pin(dialled.connection()).await?,
            }),
            Self::Manager(manager) => Handle::Manager(manager.clone()),
            Self::Multiplexed(connection) => Handle::Multiplexed(connection.clone()),
            Self::Cluster(cluster) => Handle::Cluster(cluster.clone()),
        })
    }

    /// Runs a script, which the server may have forgotten.
    pub(crate) async fn script(
        &self,
        script: &Script,
        key: &str,
        arguments: &[&[u8]],
    ) -> RedisResult<Value> {
        match self.command(&script.known(key, arguments)).await {
            Err(error) if is_unknown_script(&error) => {
                Box::pin(self.command(&script.whole(key, arguments))).await
            }
            reply => reply,
        }
    }

    /// The connection broke, hangs, is out of step or leads to a server that is not the primary.
    /// Tasks that wait on it go on waiting; whoever comes next takes a new one.
    pub(crate) fn give_up_connection(&self) {
        if let Self::Dialled(dialled) = self {
            dialled.give_up();
        }
    }

    /// Whether an error can hide that an earlier try of the driver's was applied.
    pub(crate) const fn sends_again(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}

/// A handle of one of the driver's connections.
enum Handle {
    Multiplexed(MultiplexedConnection),
    Manager(ConnectionManager),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Handle {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Multiplexed(connection) => connection.req_packed_command(cmd),
            Self::Manager(manager) => manager.req_packed_command(cmd),
            Self::Cluster(cluster) => cluster.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Multiplexed(connection) => connection.req_packed_commands(cmd, offset, count),
            Self::Manager(manager) => manager.req_packed_commands(cmd, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(cmd, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Multiplexed(connection) => connection.get_db(),
            Self::Manager(manager) => manager.get_db(),
            Self::Cluster(cluster) => cluster.get_db(),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dialled(_) => "one connection",
            Self::Manager(_) => "the application's connection manager",
            Self::Multiplexed(_) => "the application's connection",
            Self::Cluster(_) => "a Cluster",
        })
    }
}
