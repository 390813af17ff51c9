use std::fs;

use super::RedisServer;
use crate::{Launch, Process, ServerError, free_port, process::fresh_directory, until};

/// A primary, a replica of it and three Sentinels that watch them.
#[derive(Debug)]
pub struct RedisSentinel {
    sentinels: Vec<(Process, u16)>,
    primary: RedisServer,
    replica: RedisServer,
}

impl RedisSentinel {
    /// What the Sentinels call the primary.
    pub const SERVICE: &str = "idempotency";

    /// Starts all of them.
    ///
    /// # Errors
    /// A program is missing, or a server did not become ready.
    pub fn start() -> Result<Self, ServerError> {
        let primary = RedisServer::start()?;
        let replica = RedisServer::options().replica_of(&primary).start()?;
        replica.wait_until_replicating()?;
        let sentinels = (0..3).map(|_| sentinel(&primary)).collect::<Result<Vec<_>, _>>()?;
        let started = Self { sentinels, primary, replica };
        started.wait_until_agreed()?;
        Ok(started)
    }

    /// The server that was the primary at the start.
    pub const fn primary(&self) -> &RedisServer {
        &self.primary
    }

    /// The server that was the replica at the start.
    pub const fn replica(&self) -> &RedisServer {
        &self.replica
    }

    /// `redis+sentinel://127.0.0.1:PORT,…/idempotency`
    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{}", hosts.join(","), Self::SERVICE)
    }

    /// Waits until every Sentinel knows the replica and the other Sentinels.
    fn wait_until_agreed(&self) -> Result<(), ServerError> {
        for (process, port) in &self.sentinels {
            let ask = || super::client::ask(*port, &["SENTINEL", "MASTER", Self::SERVICE]).ok();
            let patience = std::time::Duration::from_secs(20);
            until(patience, || {
                let answer = ask()?;
                let knows = |name, count| answer.contains(&format!("{name}\n{count}\n"));
                (knows("num-slaves", 1) && knows("num-other-sentinels", 2)).then_some(())
            })
            .ok_or_else(|| ServerError::NotReady {
                what: format!("the Sentinel on port {port}"),
                seconds: patience.as_secs(),
                output: process.output(),
            })?;
        }
        Ok(())
    }
}

fn sentinel(primary: &RedisServer) -> Result<(Process, u16), ServerError> {
    let (directory, port) = (fresh_directory("sentinel")?, free_port());
    let (name, primary) = (RedisSentinel::SERVICE, primary.port());
    let settings = format!(
        "port {port}\nbind 127.0.0.1\ndir {dir}\n\
         sentinel monitor {name} 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds {name} 1000\n\
         sentinel failover-timeout {name} 10000\n",
        dir = directory.display(),
    );
    let file = directory.join("sentinel.conf");
    fs::write(&file, settings).map_err(ServerError::io("writing a Sentinel's settings"))?;
    let program = super::RedisProgram::default();
    let arguments = vec![file.into(), "--sentinel".into()];
    let launch = Launch { program: program.path(), arguments, install: program.install_command() };
    Ok((Process::start(&launch, directory)?, port))
}
