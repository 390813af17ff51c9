mod denied;

use std::borrow::Cow;

use idempotency_core::{CorruptRecord, Effect, ErrorKind, Operation, StoreError};
use redis::{RedisError, ServerErrorKind};

/// What a failure of the driver or of the server means (C50). The server's own words are left out:
/// they can hold the arguments of a command, and with them keys.
pub(crate) fn classify(operation: Operation, error: &RedisError) -> StoreError {
    let (kind, effect, detail) = meaning(error);
    let detail = match code_of(error) {
        Some(code) => format!("{detail} ({code})"),
        None => detail.into_owned(),
    };
    let classified = match kind {
        ErrorKind::Corrupt => return StoreError::corrupt(operation, CorruptRecord::Foreign),
        kind => StoreError::new(operation, kind, detail),
    };
    // of the driver's errors only these say nothing but what the system said
    let classified = match std::error::Error::source(error) {
        Some(_) if error.is_io_error() => classified.with_source(error.clone()),
        _ => classified,
    };
    if effect == Effect::None { classified.without_effect() } else { classified }
}

/// Whether it makes sense to send the same again at once, on a new connection or to another node.
pub(crate) fn is_worth_another_try(error: &RedisError) -> bool {
    !error.is_timeout() && meaning(error).0 == ErrorKind::Unavailable
}

type Meaning = (ErrorKind, Effect, Cow<'static, str>);

fn meaning(error: &RedisError) -> Meaning {
    use redis::ErrorKind as Driver;
    let (kind, effect, detail) = match error.kind() {
        Driver::Server(_) | Driver::Extension => return refused(error),
        Driver::Io | Driver::ClusterConnectionNotFound if is_not_believed(error) => (
            ErrorKind::Unavailable,
            Effect::None,
            "the server's certificate is not believed: is its authority known here \
             (`RedisStoreBuilder::tls_certificates`, or SSL_CERT_FILE), is it for this host, is it still valid?",
        ),
        Driver::Io if error.is_timeout() => {
            (ErrorKind::Timeout, Effect::Unknown, "no reply within the driver's time-out")
        }
        Driver::Io if error.is_connection_refusal() => {
            (ErrorKind::Unavailable, Effect::None, "the server cannot be reached")
        }
        Driver::Io => (ErrorKind::Unavailable, Effect::Unknown, "the connection broke"),
        Driver::ClusterConnectionNotFound => {
            (ErrorKind::Unavailable, Effect::None, "no node of the Cluster can be reached")
        }
        Driver::AuthenticationFailed => (ErrorKind::Denied, Effect::None, WRONG_PASSWORD),
        Driver::InvalidClientConfig => {
            (ErrorKind::Invalid, Effect::None, "the driver refuses this configuration")
        }
        _ => (ErrorKind::Unexpected, Effect::Unknown, "a reply that the driver cannot read"),
    };
    (kind, effect, detail.into())
}

/// The driver passes on what rustls says, at times in the middle of its own words.
fn is_not_believed(error: &RedisError) -> bool {
    error.to_string().contains("invalid peer certificate")
}

const WRONG_PASSWORD: &str = "the server refuses the user or the password of the URL";

/// What the server refuses, by its code, and for some by its words.
fn refused(error: &RedisError) -> Meaning {
    let code = code_of(error).unwrap_or_default();
    let words = error.detail().unwrap_or_default();
    // the driver leaves the code of what it sends first out
    if matches!(code, "NOPERM" | "ERR")
        && let Some(grant) = denied::missing_grant(words)
    {
        return (ErrorKind::Denied, Effect::None, grant);
    }
    let (kind, effect, detail) =
        if code == "ERR" { by_words(words) } else { None }.unwrap_or_else(|| by_code(code));
    (kind, effect, detail.into())
}

/// Refusals of the database that the URL names.
fn by_words(words: &str) -> Option<(ErrorKind, Effect, &'static str)> {
    let detail = if words.contains("SELECT is not allowed in cluster mode") {
        "a server of a Cluster has no database but 0: leave the number out of the URL"
    } else if ["DB index is out of range", "invalid DB index"]
        .iter()
        .any(|part| words.contains(part))
    {
        "the server has no database of the number in the URL (`/NUMBER`, or `?db=NUMBER`): they count from \
         0, and there are as many as its setting `databases` says, 16 unless told otherwise"
    } else {
        return None;
    };
    Some((ErrorKind::Invalid, Effect::None, detail))
}

/// Each of these is said before anything is written: scripts write once, and last.
fn by_code(code: &str) -> (ErrorKind, Effect, &'static str) {
    match code {
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "READONLY" | "MOVED" | "ASK" => {
            (ErrorKind::Unavailable, Effect::None, "the server is not ready for this key")
        }
        "BUSY" => (ErrorKind::Unavailable, Effect::None, "another script keeps the server busy"),
        "MISCONF" => (
            ErrorKind::Unavailable,
            Effect::None,
            "the server cannot save and takes no writes: look at its disk and its log",
        ),
        "NOREPLICAS" => (
            ErrorKind::Unavailable,
            Effect::None,
            "the server has too few replicas to take writes: `min-replicas-to-write` says how many it needs",
        ),
        "OOM" => (
            ErrorKind::Full,
            Effect::None,
            "the server's memory is full, and nothing was evicted for this record: raise `maxmemory`, or \
             shorten the retention",
        ),
        "NOAUTH" => (
            ErrorKind::Denied,
            Effect::None,
            "the server asks for a password, and the URL has none: redis://[USER]:PASSWORD@HOST",
        ),
        "WRONGPASS" => (ErrorKind::Denied, Effect::None, WRONG_PASSWORD),
        "NOPERM" => (
            ErrorKind::Denied,
            Effect::None,
            "the connection's user may not do this: grant it all that docs/backends.md lists",
        ),
        "DENIED" => (
            ErrorKind::Denied,
            Effect::None,
            "the server is in protected mode and takes no connections from other machines: give its default \
             user a password",
        ),
        "WRONGTYPE" => (ErrorKind::Corrupt, Effect::None, "something else is kept there"),
        _ => (ErrorKind::Unexpected, Effect::Unknown, "the server answered with an error"),
    }
}

/// The server's error code. Before Redis 7 the one that a command inside of a script got stands in the
/// middle of the script's own, which can begin with a place in the script.
fn code_of(error: &RedisError) -> Option<&str> {
    let code = error.code()?;
    if code != "ERR" && !code.starts_with('@') {
        return Some(code);
    }
    let words = error.detail().unwrap_or_default().split([' ', ':']);
    let inner = words
        .filter_map(|word| word.strip_prefix('-'))
        .find(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()));
    Some(inner.unwrap_or("ERR"))
}

/// Whether the server forgot the script, or never had it.
pub(crate) fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Whether the key is on its way from one node to another, and the driver has run after it in vain: of a
/// pipeline only the first command is let in at the new node.
pub(crate) fn is_redirection(error: &RedisError) -> bool {
    matches!(code_of(error), Some("ASK" | "MOVED" | "TRYAGAIN"))
}

/// Whether the server takes no writes because its memory is full.
pub(crate) fn is_out_of_memory(error: &RedisError) -> bool {
    code_of(error) == Some("OOM")
}

/// Whether the server does not know `SET` with `NX` and `GET`: before Redis 7.
pub(crate) fn is_unknown_syntax(error: &RedisError) -> bool {
    error.code() == Some("ERR")
        && error.detail().is_some_and(|detail| detail.contains("syntax error"))
}

#[cfg(test)]
mod tests;
