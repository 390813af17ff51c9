use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::ServerError;

/// Does what the lines of the pipe say: `START` runs the program in the background and tells its
/// process id, everything else is a signal to send; after one that ends the program it says so. When
/// the pipe ends, because the test process closed it or is no more, it kills the program and removes
/// its directory.
const WRAPPER: &str = r#"
directory=$0
while read -r line; do
    case $line in
        START) "$@" < /dev/null >> "$directory/output" 2>&1 & child=$!; echo $child ;;
        KILL | TERM) kill -s "$line" $child 2> /dev/null; wait $child 2> /dev/null; echo gone ;;
        *) kill -s "$line" $child 2> /dev/null ;;
    esac
done
kill -s KILL $child 2> /dev/null
wait $child 2> /dev/null
cd / && rm -rf "$directory"
"#;

/// What to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program: a path, or a name to be found in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The command that installs the program, for the error when it is missing.
    pub install: String,
}

/// A program that ends when this value is dropped and when this process ends, however it ends.
#[derive(Debug)]
pub struct Process {
    wrapper: Mutex<Wrapper>,
    directory: PathBuf,
    pid: AtomicU32,
}

#[derive(Debug)]
struct Wrapper {
    child: Child,
    lines: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it. Its output goes to `directory`, which is removed when it has ended for good.
    ///
    /// # Errors
    /// The program is missing, or cannot be run.
    pub fn start(launch: &Launch, directory: PathBuf) -> Result<Self, ServerError> {
        let program = find(launch)?;
        let failed =
            |source| ServerError::Io { what: format!("running {}", program.display()), source };
        let mut child = Command::new("sh")
            .args(["-c", WRAPPER])
            .arg(&directory)
            .arg(&program)
            .args(&launch.arguments)
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let wrapper = Wrapper { child, lines: Some(stdin), answers: BufReader::new(stdout) };
        let process = Self { wrapper: Mutex::new(wrapper), directory, pid: AtomicU32::new(0) };
        process.start_again()?;
        Ok(process)
    }

    /// Starts it once more, after it was killed or stopped.
    ///
    /// # Errors
    /// The wrapper is gone.
    pub fn start_again(&self) -> Result<(), ServerError> {
        let pid = self.tell("START")?;
        self.pid.store(pid.parse().unwrap_or_default(), Ordering::Relaxed);
        Ok(())
    }

    /// The program's process id.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The end of what it printed.
    pub fn output(&self) -> String {
        let all = fs::read(self.directory.join("output")).unwrap_or_default();
        let end = all.get(all.len().saturating_sub(2_000)..).unwrap_or_default();
        String::from_utf8_lossy(end).into_owned()
    }

    /// Stops it where it is: it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// The wrapper is gone.
    pub fn freeze(&self) -> Result<(), ServerError> {
        self.tell("STOP").map(drop)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// The wrapper is gone.
    pub fn thaw(&self) -> Result<(), ServerError> {
        self.tell("CONT").map(drop)
    }

    /// Kills it on the spot; returns when it is gone.
    ///
    /// # Errors
    /// The wrapper is gone.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.tell("KILL").map(drop)
    }

    /// Asks it to end; returns when it is gone.
    ///
    /// # Errors
    /// The wrapper is gone.
    pub fn stop(&self) -> Result<(), ServerError> {
        self.tell("TERM").map(drop)
    }

    fn tell(&self, line: &str) -> Result<String, ServerError> {
        let mut wrapper = self.wrapper.lock().unwrap_or_else(PoisonError::into_inner);
        wrapper.tell(line).map_err(ServerError::io(format!("telling the wrapper {line}")))
    }
}

impl Wrapper {
    fn tell(&mut self, line: &str) -> io::Result<String> {
        let lines = self.lines.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(lines, "{line}")?;
        lines.flush()?;
        let is_answered = matches!(line, "START" | "KILL" | "TERM");
        if is_answered { self.answer() } else { Ok(String::new()) }
    }

    fn answer(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Process {
    /// Returns when the program is gone.
    fn drop(&mut self) {
        let wrapper = self.wrapper.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(wrapper.lines.take());
        let _ended: io::Result<_> = wrapper.child.wait();
    }
}

/// The program's path.
fn find(launch: &Launch) -> Result<PathBuf, ServerError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = if launch.program.components().count() > 1 {
        Some(launch.program.clone())
    } else {
        env::split_paths(&path).map(|folder| folder.join(&launch.program)).find(|p| p.is_file())
    };
    let missing = || ServerError::Missing {
        program: launch.program.display().to_string(),
        install: launch.install.clone(),
    };
    found.filter(|path| path.is_file()).ok_or_else(missing)
}

/// A new, empty directory for a server of the kind `kind`.
///
/// # Errors
/// It could not be made.
pub(crate) fn fresh_directory(kind: &str) -> Result<PathBuf, ServerError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("idempotency-test-{kind}-{}-{count}", std::process::id());
    let directory = env::temp_dir().join(name);
    let failed = || ServerError::io(format!("making {}", directory.display()));
    let _stale: io::Result<()> = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).map_err(failed())?;
    File::create(directory.join("output")).map_err(failed())?;
    Ok(directory)
}
