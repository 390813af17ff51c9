use super::{RedisOptions, RedisServer};
use crate::ServerError;

/// A Redis Cluster of three primaries with a replica each.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

impl RedisCluster {
    /// Starts it, of the system's servers.
    ///
    /// # Errors
    /// A program is missing, or the Cluster did not become ready.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_of(RedisOptions::default())
    }

    /// Starts it, of other servers.
    ///
    /// # Errors
    /// A program is missing, or the Cluster did not become ready.
    pub fn start_of(options: RedisOptions) -> Result<Self, ServerError> {
        // a server that was built without TLS does not know the setting
        let has_tls = options.authority().is_some();
        let options = if has_tls { options.set("tls-cluster", "yes") } else { options };
        let options = options
            .set("cluster-enabled", "yes")
            .set("cluster-node-timeout", "2000")
            .set("cluster-replica-validity-factor", "0");
        let nodes = (0..2 * PRIMARIES).map(|_| options.start()).collect::<Result<Vec<_>, _>>()?;
        let cluster = Self { nodes };
        cluster.join()?;
        Ok(cluster)
    }

    /// All nodes, the first primaries first.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// `redis+cluster://127.0.0.1:PORT,…` of the first primaries.
    pub fn url(&self) -> String {
        let ports = self.nodes.iter().take(PRIMARIES).map(RedisServer::port);
        format!("redis+cluster://{}", hosts(ports))
    }

    /// `rediss+cluster://127.0.0.1:PORT,…` of the first primaries, where they have TLS.
    pub fn tls_url(&self) -> Option<String> {
        let ports = self.nodes.iter().take(PRIMARIES).map(RedisServer::tls_port);
        let ports: Option<Vec<_>> = ports.collect();
        ports.map(|ports| format!("rediss+cluster://{}", hosts(ports)))
    }

    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<&RedisServer> {
        self.nodes.iter().find(|node| node.ask(&["CLUSTER", "MYID"]).is_ok_and(|found| found == id))
    }

    fn join(&self) -> Result<(), ServerError> {
        let (primaries, replicas) = self.nodes.split_at(PRIMARIES);
        for (index, node) in self.nodes.iter().enumerate() {
            node.tell(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        for (index, primary) in primaries.iter().enumerate() {
            let slots = SLOTS * index / PRIMARIES..SLOTS * (index + 1) / PRIMARIES;
            let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
            let mut command = vec!["CLUSTER", "ADDSLOTS"];
            command.extend(slots.iter().map(String::as_str));
            primary.tell(&command)?;
        }
        if let Some((first, others)) = self.nodes.split_first() {
            for node in others {
                node.tell(&["CLUSTER", "MEET", "127.0.0.1", &first.peer_port().to_string()])?;
            }
        }
        for (primary, replica) in primaries.iter().zip(replicas) {
            let id = primary.ask(&["CLUSTER", "MYID"])?;
            replica.wait_for(&["CLUSTER", "NODES"], |nodes| {
                nodes.lines().any(|line| line.starts_with(&id) && !line.contains("handshake"))
            })?;
            replica.tell(&["CLUSTER", "REPLICATE", &id])?;
        }
        for node in &self.nodes {
            let nodes = self.nodes.len();
            node.wait_for(&["CLUSTER", "INFO"], |info| {
                info.contains("cluster_state:ok")
                    && info.contains("cluster_slots_ok:16384")
                    && info.contains(&format!("cluster_known_nodes:{nodes}"))
            })?;
            node.wait_for(&["CLUSTER", "NODES"], |seen| {
                seen.lines().filter(|line| line.contains("slave")).count() == nodes - PRIMARIES
            })?;
        }
        replicas.iter().try_for_each(RedisServer::wait_until_replicating)
    }
}

/// `127.0.0.1:PORT,…`
pub(super) fn hosts(ports: impl IntoIterator<Item = u16>) -> String {
    let hosts: Vec<_> = ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
    hosts.join(",")
}
