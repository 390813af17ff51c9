//! The program as a user runs it.

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::ChildStdout,
};

use crate::support::{PATIENCE, SECRET};

/// A running program; it is killed with the value.
pub(crate) struct Program {
    pub(crate) address: SocketAddr,
    child: tokio::process::Child,
    /// Kept open: who writes to a pipe that nobody reads from panics.
    output: Lines<BufReader<ChildStdout>>,
}

fn command(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_webhook-receiver"));
    command.args(["--listen", "127.0.0.1:0"]).args(options);
    for name in ["WEBHOOK_SECRET", "STRIPE_WEBHOOK_SECRET"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

impl Program {
    pub(crate) async fn start(options: &[&str]) -> Self {
        let mut command = tokio::process::Command::from(command(options));
        command.env("WEBHOOK_SECRET", SECRET).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line());
        let line = line.await.unwrap().unwrap().unwrap();
        let (_, rest) = line.split_once("http://").unwrap();
        let address = rest.split_once('/').unwrap().0.parse().unwrap();
        Self { address, child, output: lines }
    }

    /// Asks it to end, as an orchestrator or a person at a terminal does.
    #[cfg(unix)]
    pub(crate) fn ask_to_end(&self, signal: &str) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// How it ended, and the rest of what it wrote.
    #[cfg(unix)]
    pub(crate) async fn ended(mut self) -> (std::process::ExitStatus, String) {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait());
        let status = ended.await.unwrap().unwrap();
        let mut rest = String::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            rest = format!("{rest}{line}\n");
        }
        (status, rest)
    }

    /// As a crash: it is not asked.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Kind of fault: a secret is repeated in an error message.
#[test]
fn wrong_options_are_refused_with_what_is_right() {
    for (options, told) in [
        (&[][..], "--secret"),
        (&["--secret", "whsec_a-bad-one"][..], "base64"),
        (&["--stripe-secret", "a-bad-one"][..], "--stripe-secret"),
        (&["--secret", SECRET, "--store", "mysql://x"][..], "memory:"),
        (&["--secret", SECRET, "--lease", "soon"][..], "30s"),
    ] {
        let output = command(options).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(told), "{options:?}: {error}");
        assert!(!error.contains("a-bad-one") && !error.contains(SECRET), "{error}");
    }
}
