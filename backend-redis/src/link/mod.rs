//! The way to the servers.

mod dial;
mod dialled;

use std::{fmt, sync::Arc};

use redis::{
    Cmd, Pipeline, RedisResult, Value,
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
        // the driver's own futures where they are to be had: its trait for all connections boxes them
        let reply = match self {
            Self::Dialled(dialled) => {
                Self::dialled(dialled).await?.send_packed_command(command).await
            }
            Self::Multiplexed(connection) => connection.clone().send_packed_command(command).await,
            Self::Manager(manager) => manager.clone().send_packed_command(command).await,
            Self::Cluster(cluster) => cluster.clone().req_packed_command(command).await,
        };
        reply?.extract_error()
    }

    /// Sends all commands at once. An error of the server is one of the replies.
    pub(crate) async fn pipeline(&self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        let count = commands.len();
        match self {
            Self::Dialled(dialled) => {
                Self::dialled(dialled).await?.send_packed_commands(commands, 0, count).await
            }
            Self::Multiplexed(connection) => {
                connection.clone().send_packed_commands(commands, 0, count).await
            }
            Self::Manager(manager) => {
                manager.clone().send_packed_commands(commands, 0, count).await
            }
            Self::Cluster(cluster) => cluster.clone().req_packed_commands(commands, 0, count).await,
        }
    }

    async fn dialled(dialled: &Dialled) -> RedisResult<MultiplexedConnection> {
        match dialled.current() {
            Some(connection) => Ok(connection),
            // boxed, so that every operation is not as large as one that dials
            None => Box::pin(dialled.connection()).await,
        }
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
