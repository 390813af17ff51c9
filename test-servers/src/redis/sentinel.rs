use std::fs;

use super::{RedisOptions, RedisServer, cluster::hosts, tls::Tls};
use crate::{Launch, Process, ServerError, free_port, process::fresh_directory, until};

/// A primary, a replica of it and three Sentinels that watch them.
#[derive(Debug)]
pub struct RedisSentinel {
    sentinels: Vec<Sentinel>,
    primary: RedisServer,
    replica: RedisServer,
}

#[derive(Debug)]
struct Sentinel {
    process: Process,
    port: u16,
    tls_port: Option<u16>,
}

impl RedisSentinel {
    /// What the Sentinels call the primary.
    pub const SERVICE: &str = "idempotency";

    /// Starts all of them.
    ///
    /// # Errors
    /// A program is missing, or a server did not become ready.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_of(&RedisOptions::default())
    }

    /// Starts all of them, the servers with these options. Where those have TLS, the Sentinels have it as
    /// well, and all of them speak it among each other.
    ///
    /// # Errors
    /// A program is missing, or a server did not become ready.
    pub fn start_of(options: &RedisOptions) -> Result<Self, ServerError> {
        let primary = options.start()?;
        let replica = options.clone().replica_of(&primary).start()?;
        replica.wait_until_replicating()?;
        let sentinels = (0..3).map(|_| Sentinel::start(&primary, options));
        let sentinels = sentinels.collect::<Result<Vec<_>, _>>()?;
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
        let ports = self.sentinels.iter().map(|sentinel| sentinel.port);
        format!("redis+sentinel://{}/{}", hosts(ports), Self::SERVICE)
    }

    /// `rediss+sentinel://127.0.0.1:PORT,…/idempotency`, where they have TLS.
    pub fn tls_url(&self) -> Option<String> {
        let ports: Option<Vec<_>> =
            self.sentinels.iter().map(|sentinel| sentinel.tls_port).collect();
        ports.map(|ports| format!("rediss+sentinel://{}/{}", hosts(ports), Self::SERVICE))
    }

    /// Waits until every Sentinel knows the replica and the other Sentinels.
    fn wait_until_agreed(&self) -> Result<(), ServerError> {
        for Sentinel { process, port, .. } in &self.sentinels {
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

impl Sentinel {
    fn start(primary: &RedisServer, options: &RedisOptions) -> Result<Self, ServerError> {
        let (directory, port) = (fresh_directory("sentinel")?, free_port());
        let (name, monitored) = (RedisSentinel::SERVICE, primary.peer_port());
        let mut settings = format!(
            "port {port}\nbind 127.0.0.1\ndir {dir}\n\
             sentinel monitor {name} 127.0.0.1 {monitored} 2\n\
             sentinel down-after-milliseconds {name} 1000\n\
             sentinel failover-timeout {name} 10000\n",
            dir = directory.display(),
        );
        let tls = options.authority().map(|authority| Tls::set_up(authority, &directory));
        let tls = tls.transpose()?;
        for (name, value) in tls.iter().flat_map(|tls| &tls.settings) {
            settings.extend([*name, " ", value, "\n"]);
        }
        let file = directory.join("sentinel.conf");
        fs::write(&file, settings).map_err(ServerError::io("writing a Sentinel's settings"))?;
        let program = super::RedisProgram::default();
        let arguments = vec![file.into(), "--sentinel".into()];
        let launch =
            Launch { program: program.path(), arguments, install: program.install_command() };
        let process = Process::start(&launch, directory)?;
        Ok(Self { process, port, tls_port: tls.map(|tls| tls.port) })
    }
}
