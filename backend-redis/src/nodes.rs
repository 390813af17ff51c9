use std::fmt;

use redis::{
    Cmd, Pipeline, RedisResult, Value,
    cluster_routing::{RoutingInfo, SingleNodeRoutingInfo},
    cmd,
};

use crate::link::Link;

/// A server that takes writes: the one there is, or one of a Cluster's primaries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Only,
    Of { host: String, port: u16 },
}

impl Link {
    /// All servers that take writes, in a fixed order.
    pub(crate) async fn primaries(&self) -> RedisResult<Vec<Node>> {
        if !matches!(self, Self::Cluster(_)) {
            return Ok(vec![Node::Only]);
        }
        let slots = self.command(cmd("CLUSTER").arg("SLOTS")).await?;
        let mut nodes: Vec<_> = parts(slots).into_iter().filter_map(primary).collect();
        nodes.sort();
        nodes.dedup();
        Ok(nodes)
    }

    /// Sends a command to one of them.
    pub(crate) async fn command_to(&self, node: &Node, command: Cmd) -> RedisResult<Value> {
        match (self, node) {
            (Self::Cluster(cluster), Node::Of { host, port }) => {
                let address = SingleNodeRoutingInfo::ByAddress { host: host.clone(), port: *port };
                cluster.clone().route_command(command, RoutingInfo::SingleNode(address)).await
            }
            _ => self.command(&command).await,
        }
    }

    /// Sends commands to one of them at once, on one connection. An error of the server is one of the replies.
    pub(crate) async fn commands_to(
        &self,
        node: &Node,
        commands: Pipeline,
    ) -> RedisResult<Vec<Value>> {
        match (self, node) {
            (Self::Cluster(cluster), Node::Of { host, port }) => {
                let address = SingleNodeRoutingInfo::ByAddress { host: host.clone(), port: *port };
                let count = commands.len();
                cluster.clone().route_pipeline(commands, 0, count, address).await
            }
            _ => self.pipeline(&commands).await,
        }
    }
}

/// `HOST:PORT`, and nothing for the only one.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => Ok(()),
            Self::Of { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// The primary of one part of `CLUSTER SLOTS`: first slot, last slot, the primary, its replicas.
fn primary(slots: Value) -> Option<Node> {
    let mut primary = parts(parts(slots).into_iter().nth(2)?).into_iter();
    match (primary.next()?, primary.next()?) {
        (Value::BulkString(host), Value::Int(port)) => {
            Some(Node::Of { host: String::from_utf8(host).ok()?, port: u16::try_from(port).ok()? })
        }
        _ => None,
    }
}

pub(crate) fn parts(value: Value) -> Vec<Value> {
    match value {
        Value::Array(parts) => parts,
        _ => Vec::new(),
    }
}
