use idempotency_core::{CorruptRecord, Effect, ErrorKind, Operation, StoreError};
use redis::{RedisError, ServerErrorKind};

/// What a failure of the driver or of the server means (C50). The server's own words are left out:
/// they can hold the arguments of a command, and with them keys.
pub(crate) fn classify(operation: Operation, error: &RedisError) -> StoreError {
    let (kind, effect, detail) = meaning(error);
    let detail = match code_of(error) {
        Some(code) => format!("{detail} ({code})"),
        None => detail.to_owned(),
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

fn meaning(error: &RedisError) -> (ErrorKind, Effect, &'static str) {
    use redis::ErrorKind as Driver;
    match error.kind() {
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
        Driver::AuthenticationFailed => {
            (ErrorKind::Denied, Effect::None, "the server refuses these credentials")
        }
        Driver::InvalidClientConfig => {
            (ErrorKind::Invalid, Effect::None, "the driver refuses this configuration")
        }
        Driver::Server(_) | Driver::Extension => by_code(code_of(error).unwrap_or_default()),
        _ => (ErrorKind::Unexpected, Effect::Unknown, "a reply that the driver cannot read"),
    }
}

/// Each of these is said before anything is written: scripts write once, and last.
fn by_code(code: &str) -> (ErrorKind, Effect, &'static str) {
    match code {
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "READONLY" | "MOVED" | "ASK" => {
            (ErrorKind::Unavailable, Effect::None, "the server is not ready for this key")
        }
        "BUSY" => (ErrorKind::Unavailable, Effect::None, "another script keeps the server busy"),
        "MISCONF" => {
            (ErrorKind::Unavailable, Effect::None, "the server cannot save and takes no writes")
        }
        "NOREPLICAS" => {
            (ErrorKind::Unavailable, Effect::None, "the server has too few replicas to take writes")
        }
        "OOM" => (
            ErrorKind::Full,
            Effect::None,
            "the server's memory is full; nothing was evicted for this record",
        ),
        "NOAUTH" | "WRONGPASS" | "NOPERM" => {
            (ErrorKind::Denied, Effect::None, "the server refuses these credentials")
        }
        "WRONGTYPE" => (ErrorKind::Corrupt, Effect::None, "something else is kept there"),
        _ => (ErrorKind::Unexpected, Effect::Unknown, "the server answered with an error"),
    }
}

/// The server's error code. Before Redis 7 the one that a command inside of a script got stands in the
/// middle of the script's own.
fn code_of(error: &RedisError) -> Option<&str> {
    let code = error.code()?;
    if code != "ERR" {
        return Some(code);
    }
    let words = error.detail().unwrap_or_default().split([' ', ':']);
    let inner = words
        .filter_map(|word| word.strip_prefix('-'))
        .find(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()));
    Some(inner.unwrap_or(code))
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
