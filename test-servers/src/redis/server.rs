use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use super::{RedisProgram, client::ask, tls::Tls};
use crate::{Authority, Launch, Process, ServerError, free_port, process::fresh_directory, until};

/// One Redis server.
#[derive(Debug)]
pub struct RedisServer {
    process: Process,
    port: u16,
    tls_port: Option<u16>,
}

/// How to start a [`RedisServer`].
#[derive(Clone, Debug, Default)]
#[must_use = "options start nothing"]
pub struct RedisOptions {
    program: RedisProgram,
    arguments: Vec<String>,
    authority: Option<Authority>,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl RedisOptions {
    /// Another program than the system's.
    pub fn program(self, program: RedisProgram) -> Self {
        Self { program, ..self }
    }

    /// A setting of its configuration: `.set("maxmemory", "20mb")`.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.arguments.push(format!("--{name}"));
        self.arguments.extend(value.split(' ').map(str::to_owned));
        self
    }

    /// With a second port that speaks TLS, under a certificate of `authority`.
    pub fn tls(self, authority: &Authority) -> Self {
        Self { authority: Some(authority.clone()), ..self }
    }

    pub(super) const fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// A replica of `primary`; over TLS where that has it, and then this one needs it as well.
    pub fn replica_of(self, primary: &RedisServer) -> Self {
        self.set("replicaof", &format!("127.0.0.1 {}", primary.peer_port()))
    }

    /// Starts it.
    ///
    /// # Errors
    /// The program is missing, or did not become ready.
    pub fn start(&self) -> Result<RedisServer, ServerError> {
        const TRIES: usize = 5;
        let mut started = self.start_at(free_port());
        for _ in 1..TRIES {
            // another process was faster with the port
            if !matches!(&started, Err(ServerError::NotReady { .. })) {
                break;
            }
            started = self.start_at(free_port());
        }
        started
    }

    fn start_at(&self, port: u16) -> Result<RedisServer, ServerError> {
        let directory = fresh_directory("redis")?;
        let fixed = [
            ("--port", port.to_string()),
            ("--bind", "127.0.0.1".to_owned()),
            ("--dir", directory.display().to_string()),
            ("--unixsocket", directory.join("socket").display().to_string()),
            ("--repl-diskless-sync-delay", "0".to_owned()),
            ("--daemonize", "no".to_owned()),
        ];
        let mut arguments: Vec<_> =
            fixed.into_iter().flat_map(|(name, value)| [name.into(), value.into()]).collect();
        if !self.arguments.iter().any(|argument| argument == "--save") {
            arguments.extend(["--save".into(), "".into()]);
        }
        let tls = self.authority.as_ref().map(|authority| Tls::set_up(authority, &directory));
        let tls = tls.transpose()?;
        let tls_port = tls.as_ref().map(|tls| tls.port);
        for (name, value) in tls.into_iter().flat_map(|tls| tls.settings) {
            arguments.extend([format!("--{name}").into(), value.into()]);
        }
        // what is set for this one server comes last, and holds
        arguments.extend(self.arguments.iter().map(Into::into));
        let install = self.program.install_command();
        let launch = Launch { program: self.program.path(), arguments, install };
        let server = RedisServer { process: Process::start(&launch, directory)?, port, tls_port };
        server.wait_until_ready()?;
        Ok(server)
    }
}

impl RedisServer {
    /// The system's server with default settings, without snapshots.
    ///
    /// # Errors
    /// The program is missing, or did not become ready.
    pub fn start() -> Result<Self, ServerError> {
        Self::options().start()
    }

    /// Another program, other settings.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// Where it listens.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// `redis://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it listens for TLS, if it does.
    pub const fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    /// `rediss://127.0.0.1:PORT`, where it has TLS.
    pub fn tls_url(&self) -> Option<String> {
        self.tls_port.map(|port| format!("rediss://127.0.0.1:{port}"))
    }

    /// Where other servers find it.
    pub(super) fn peer_port(&self) -> u16 {
        self.tls_port.unwrap_or(self.port)
    }

    /// The path of its Unix socket.
    pub fn socket(&self) -> String {
        self.process.directory().join("socket").display().to_string()
    }

    /// Its process: to freeze, to kill, to watch.
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// Sends a command and gives the answer as text, an answer of several parts line by line.
    ///
    /// # Errors
    /// It cannot be reached. What the server calls an error is an answer.
    pub fn ask(&self, command: &[&str]) -> Result<String, ServerError> {
        let name = command.first().copied().unwrap_or_default();
        ask(self.port, command).map_err(ServerError::io(format!("asking {}", self.name(name))))
    }

    /// Sends a command that must be answered with `OK`.
    ///
    /// # Errors
    /// It cannot be reached, or answers something else.
    pub fn tell(&self, command: &[&str]) -> Result<(), ServerError> {
        let answer = self.ask(command)?;
        if answer == "OK" {
            return Ok(());
        }
        Err(ServerError::Answer { what: self.name(&command.join(" ")), answer })
    }

    /// Kills it and starts it again on the same port, with the same settings and files.
    ///
    /// # Errors
    /// It did not become ready again.
    pub fn kill_and_restart(&self) -> Result<(), ServerError> {
        self.process.kill()?;
        self.restart()
    }

    /// Starts it again after it was killed.
    ///
    /// # Errors
    /// It did not become ready again.
    pub fn restart(&self) -> Result<(), ServerError> {
        self.process.start_again()?;
        self.wait_until_ready()
    }

    /// Waits until `is_so` of the answer to `command`.
    ///
    /// # Errors
    /// It was not so in time.
    pub fn wait_for(
        &self,
        command: &[&str],
        mut is_so: impl FnMut(&str) -> bool,
    ) -> Result<(), ServerError> {
        until(PATIENCE, || self.ask(command).ok().filter(|answer| is_so(answer)))
            .map(drop)
            .ok_or_else(|| self.not_ready())
    }

    /// Waits until this replica has all that its primary has.
    ///
    /// # Errors
    /// It did not get there in time.
    pub fn wait_until_replicating(&self) -> Result<(), ServerError> {
        self.wait_for(&["INFO", "replication"], |info| info.contains("master_link_status:up"))
    }

    fn wait_until_ready(&self) -> Result<(), ServerError> {
        self.wait_for(&["PING"], |answer| answer == "PONG")
    }

    fn not_ready(&self) -> ServerError {
        let seconds = PATIENCE.as_secs();
        ServerError::NotReady { what: self.name(""), seconds, output: self.process.output() }
    }

    fn name(&self, command: &str) -> String {
        format!("the Redis server on port {} {command}", self.port)
    }
}
