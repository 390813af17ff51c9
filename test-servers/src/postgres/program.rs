use std::{env, fs, path::PathBuf};

/// Which `PostgreSQL`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PostgresProgram {
    /// The newest one that Debian's packages have installed.
    #[default]
    System,
    /// One whose programs are in this folder.
    Folder(PathBuf),
}

impl PostgresProgram {
    /// The variable that names the folder of a newer `PostgreSQL` for the whole test run.
    pub const NEWEST: &str = "IDEMPOTENCY_POSTGRES_NEWEST";

    /// The one that [`NEWEST`](Self::NEWEST) names.
    pub fn newest() -> Option<Self> {
        env::var_os(Self::NEWEST).map(|folder| Self::Folder(folder.into()))
    }

    /// One of its programs.
    pub(super) fn path(&self, program: &str) -> PathBuf {
        match self {
            Self::System => system().map_or_else(|| program.into(), |folder| folder.join(program)),
            Self::Folder(folder) => folder.join(program),
        }
    }

    pub(super) fn install_command(&self) -> String {
        match self {
            Self::System => "apt-get install postgresql".to_owned(),
            Self::Folder(_) => "./test install".to_owned(),
        }
    }
}

/// Debian keeps the programs of each version in a folder of its own, outside of `PATH`.
fn system() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let newest = versions.filter_map(Result::ok).max_by_key(|version| {
        version.file_name().to_string_lossy().parse::<u32>().unwrap_or_default()
    })?;
    Some(newest.path().join("bin"))
}
