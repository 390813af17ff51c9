//! Arguments that several verbs share.

use std::{
    env::{self, VarError},
    str::FromStr,
    time::Duration,
};

use clap::{Args, ValueEnum};
use idempotency::{IdempotencyKey, KeyError, Record, Scope, SeenClaim};

/// The URL of a store, from the command line or from the environment. It may hold a password, so it
/// is never shown.
#[derive(Clone)]
pub(crate) struct StoreAddress(String);

impl StoreAddress {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StoreAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(name) = text.strip_prefix("env:") else {
            return Ok(Self(text.to_owned()));
        };
        env::var(name).map(Self).map_err(|error| match error {
            VarError::NotPresent => format!("the environment has no variable `{name}`"),
            // what it holds may be half a password
            VarError::NotUnicode(_) => {
                format!("the variable `{name}` of the environment is no UTF-8, as a URL has to be")
            }
        })
    }
}

/// The store to work with.
#[derive(Args)]
pub(crate) struct StoreArg {
    /// The URL of the store; `env:NAME` takes it from the environment, where no list of processes
    /// shows its password.
    #[arg(value_name = "STORE_URL")]
    pub(crate) store: StoreAddress,
}

/// One key.
#[derive(Args)]
pub(crate) struct KeyArgs {
    /// The key, as the client sent it.
    key: String,

    #[command(flatten)]
    scope: RequiredScope,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct RequiredScope {
    /// The scope of the key: the account, merchant or tenant that owns it.
    #[arg(long, value_name = "NAME")]
    scope: Option<String>,

    /// The key belongs to the global scope.
    #[arg(long)]
    global_scope: bool,
}

impl KeyArgs {
    pub(crate) fn key(&self) -> Result<IdempotencyKey, KeyError> {
        match &self.scope.scope {
            Some(scope) => IdempotencyKey::new(scope, &self.key),
            None => IdempotencyKey::new(Scope::global(), &self.key),
        }
    }
}

/// How a result is written.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: one JSON document a line.
    Json,
}

/// The attempt that an operator has seen: its number and the first 32 bits of its token, as `lookup`
/// and `list` show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenAttempt {
    number: u32,
    token: u32,
}

impl From<&Record> for SeenAttempt {
    fn from(record: &Record) -> Self {
        let SeenClaim { token, attempt } = record.into();
        let [a, b, c, d, ..] = *token.as_bytes();
        Self { number: attempt.get(), token: u32::from_be_bytes([a, b, c, d]) }
    }
}

impl std::fmt::Display for SeenAttempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{:08x}", self.number, self.token)
    }
}

impl FromStr for SeenAttempt {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once(':').and_then(|(number, token)| {
            let token = (token.len() == 8).then(|| u32::from_str_radix(token, 16).ok())??;
            Some(Self { number: number.parse().ok()?, token })
        });
        parsed.ok_or("an attempt looks as `lookup` and `list` show it: `2:1f3c5a7b`")
    }
}

/// A length of time as people write it: `90s`, `15m`, `2h 30m`, `7days`.
pub(crate) fn duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_read_as_it_is_shown() {
        let seen = SeenAttempt { number: 12, token: 0x0f3c_5a7b };
        assert_eq!(seen.to_string(), "12:0f3c5a7b");
        assert!("12:0f3c5a7b".parse() == Ok(seen));
        for wrong in ["", "12", "12:", "12:f3c5a7b", "x:0f3c5a7b", "1:0f3c5a7b9", "-1:0f3c5a7b"] {
            assert!(wrong.parse::<SeenAttempt>().is_err(), "{wrong}");
        }
    }
}
