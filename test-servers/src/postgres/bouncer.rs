use std::{
    env,
    ffi::OsString,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    time::Duration,
};

use super::{
    PostgresServer,
    user::{give_away, unprivileged},
};
use crate::{Launch, Process, ServerError, free_port, process::fresh_directory, until};

/// A `PgBouncer` in transaction mode before a [`PostgresServer`].
#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    port: u16,
}

/// How to start a [`PgBouncer`].
#[derive(Clone, Debug, Default)]
#[must_use = "options start nothing"]
pub struct BouncerOptions {
    command: Vec<OsString>,
    settings: Vec<(String, String)>,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl BouncerOptions {
    /// The variable that names another `PgBouncer` than the system's: its path, or a loader, its
    /// options and the path, separated by spaces.
    pub const NEWEST: &str = "IDEMPOTENCY_PGBOUNCER_NEWEST";

    /// The one that [`NEWEST`](Self::NEWEST) names.
    pub fn newest() -> Option<Self> {
        let command = env::var(Self::NEWEST).ok()?;
        let command = command.split(' ').map(OsString::from).collect();
        Some(Self { command, settings: Vec::new() })
    }

    /// A setting of its configuration: `.set("max_prepared_statements", "100")`.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it before `server`.
    ///
    /// # Errors
    /// The program is missing, or did not become ready.
    pub fn start(&self, server: &PostgresServer) -> Result<PgBouncer, ServerError> {
        let (port, directory) = (free_port(), fresh_directory("pgbouncer")?);
        let configuration = directory.join("pgbouncer.ini");
        let failed = || ServerError::io("writing the configuration of PgBouncer");
        fs::write(&configuration, self.configuration(port, server)).map_err(failed())?;
        fs::write(directory.join("users.txt"), "\"postgres\" \"\"\n").map_err(failed())?;
        give_away(&directory)?;
        let mut command = self.command.iter().cloned();
        let program = command.next().map_or_else(|| PathBuf::from("pgbouncer"), PathBuf::from);
        let mut arguments: Vec<OsString> = command.collect();
        arguments.extend(["-q".into(), configuration.into()]);
        let install = "apt-get install pgbouncer".to_owned();
        let launch = unprivileged(Launch { program, arguments, install });
        let bouncer = PgBouncer { process: Process::start(&launch, directory)?, port };
        bouncer.wait_until_ready()?;
        Ok(bouncer)
    }

    fn configuration(&self, port: u16, server: &PostgresServer) -> String {
        let mut text = format!(
            "[databases]\npostgres = user=postgres host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 8\nmax_client_conn = 500\nauth_file = users.txt\n",
            server.port()
        );
        for (name, value) in &self.settings {
            text.extend([name, " = ", value, "\n"]);
        }
        text
    }
}

impl PgBouncer {
    /// The system's `PgBouncer` before `server`.
    ///
    /// # Errors
    /// The program is missing, or did not become ready.
    pub fn start(server: &PostgresServer) -> Result<Self, ServerError> {
        BouncerOptions::default().start(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The process: to freeze, to kill.
    pub const fn process(&self) -> &Process {
        &self.process
    }

    fn wait_until_ready(&self) -> Result<(), ServerError> {
        let listens = || TcpStream::connect(self.address()).ok().map(drop);
        until(PATIENCE, listens).ok_or_else(|| ServerError::NotReady {
            what: format!("PgBouncer at port {}", self.port),
            seconds: PATIENCE.as_secs(),
            output: self.process.output(),
        })
    }
}
