use std::{
    ffi::OsString,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Launch, ServerError};

/// Servers that refuse to run as root run as this user then; its package makes it.
const USER: &str = "postgres";

/// Whether this process is root, told by whom its own files belong to.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// What to start so that it does not run as root.
pub(super) fn unprivileged(launch: Launch) -> Launch {
    if !is_root() {
        return launch;
    }
    let mut arguments: Vec<OsString> =
        ["--reuid", USER, "--regid", USER, "--clear-groups", "--"].map(OsString::from).into();
    arguments.push(launch.program.into_os_string());
    arguments.extend(launch.arguments);
    Launch { program: PathBuf::from("setpriv"), arguments, install: launch.install }
}

/// Gives `path` to the user that servers run as.
pub(super) fn give_away(path: &Path) -> Result<(), ServerError> {
    if !is_root() {
        return Ok(());
    }
    run(Command::new("chown").arg("-R").arg(USER).arg(path), "chown")
}

/// Runs a program to its end.
pub(super) fn run(command: &mut Command, what: &str) -> Result<(), ServerError> {
    let output = command.output().map_err(ServerError::io(format!("running {what}")))?;
    if output.status.success() {
        return Ok(());
    }
    let answer = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ServerError::Answer { what: what.to_owned(), answer })
}
