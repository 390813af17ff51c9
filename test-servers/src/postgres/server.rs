use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use super::{
    PostgresProgram,
    user::{give_away, run, unprivileged},
};
use crate::{Launch, Process, ServerError, free_port, process::fresh_directory, until};

/// One `PostgreSQL` server. Its superuser is `postgres`, without a password, with a database of the
/// same name.
#[derive(Debug)]
pub struct PostgresServer {
    process: Process,
    program: PostgresProgram,
    port: u16,
}

/// How to start a [`PostgresServer`].
#[derive(Clone, Debug, Default)]
#[must_use = "options start nothing"]
pub struct PostgresOptions {
    program: PostgresProgram,
    settings: Vec<(String, String)>,
}

const PATIENCE: Duration = Duration::from_secs(30);

impl PostgresOptions {
    /// Another program than the system's.
    pub fn program(self, program: PostgresProgram) -> Self {
        Self { program, ..self }
    }

    /// A setting of its configuration: `.set("fsync", "on")`.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it, on data of its own.
    ///
    /// # Errors
    /// The program is missing, or did not become ready.
    pub fn start(&self) -> Result<PostgresServer, ServerError> {
        const TRIES: usize = 3;
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

    fn start_at(&self, port: u16) -> Result<PostgresServer, ServerError> {
        let directory = fresh_directory("postgres")?;
        give_away(&directory)?;
        let data = directory.join("data");
        self.initialize(&data)?;
        let mut arguments: Vec<OsString> = vec!["-D".into(), data.into()];
        let fixed = [
            ("port", port.to_string()),
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("unix_socket_directories", String::new()),
            // a server that is killed loses nothing by it, a machine would
            ("fsync", "off".to_owned()),
            ("max_connections", "200".to_owned()),
            ("shared_buffers", "64MB".to_owned()),
        ];
        let settings = fixed.iter().map(|(name, value)| (*name, value.as_str()));
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in settings.chain(own) {
            arguments.extend(["-c".into(), format!("{name}={value}").into()]);
        }
        let launch = unprivileged(self.launch("postgres", arguments));
        let process = Process::start(&launch, directory)?;
        let server = PostgresServer { process, program: self.program.clone(), port };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn initialize(&self, data: &Path) -> Result<(), ServerError> {
        let arguments = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"];
        let mut arguments: Vec<OsString> = arguments.map(Into::into).into();
        arguments.extend(["--no-sync".into(), "-D".into(), data.into()]);
        let launch = self.launch("initdb", arguments);
        if launch.program.components().count() > 1 && !launch.program.is_file() {
            let program = launch.program.display().to_string();
            return Err(ServerError::Missing { program, install: launch.install });
        }
        let launch = unprivileged(launch);
        let mut command = Command::new(&launch.program);
        run(command.args(&launch.arguments).current_dir("/"), "initdb")
    }

    fn launch(&self, program: &str, arguments: Vec<OsString>) -> Launch {
        let install = self.program.install_command();
        Launch { program: self.program.path(program), arguments, install }
    }
}

impl PostgresServer {
    /// The system's server with default settings.
    ///
    /// # Errors
    /// The program is missing, or did not become ready.
    pub fn start() -> Result<Self, ServerError> {
        Self::options().start()
    }

    /// Another program, other settings.
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// Where it listens.
    pub const fn port(&self) -> u16 {
        self.port
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

    /// Kills the server on the spot and starts it again, on the same data and port.
    ///
    /// # Errors
    /// It did not come back.
    pub fn crash_and_restart(&self) -> Result<(), ServerError> {
        self.process.kill()?;
        self.start_again()
    }

    /// Starts it again after it was killed.
    ///
    /// # Errors
    /// It did not come back.
    pub fn start_again(&self) -> Result<(), ServerError> {
        // its children may need a moment to notice, and it does not start beside them
        const TRIES: usize = 20;
        for _ in 0..TRIES {
            self.process.start_again()?;
            let pid = self.process.pid();
            let settled = until(PATIENCE, || {
                let gone = !is_running(pid);
                (gone || self.is_ready()).then_some(gone)
            });
            if settled == Some(false) {
                return Ok(());
            }
        }
        self.wait_until_ready()
    }

    fn wait_until_ready(&self) -> Result<(), ServerError> {
        until(PATIENCE, || self.is_ready().then_some(())).ok_or_else(|| ServerError::NotReady {
            what: format!("the PostgreSQL server at port {}", self.port),
            seconds: PATIENCE.as_secs(),
            output: self.process.output(),
        })
    }

    fn is_ready(&self) -> bool {
        let port = self.port.to_string();
        let asked = Command::new(self.program.path("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", port.as_str(), "-t", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    }
}

/// A process that has ended and was not waited for is a zombie: that counts as gone.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
