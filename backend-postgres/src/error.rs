use idempotency_core::{ErrorKind, Operation, StoreError};
use sqlx::Error;

/// What kind of failure it is, and what may have happened (C50).
///
/// A statement that the server has refused has changed nothing: each of ours is a transaction of its
/// own, and a refusal rolls it back. A server that ends the session, or says that it does not know,
/// may have committed before.
pub(crate) fn classify(operation: Operation, error: Error) -> StoreError {
    if let Error::Database(refusal) = &error {
        let code = refusal.code().unwrap_or_default().into_owned();
        let refused = refused(operation, &code);
        // 40003: the completion of the statement is unknown; poolers and relatives of the server say it
        let is_unknown = ends_session(&code) || code == "40003";
        let refused = if is_unknown { refused } else { refused.without_effect() };
        return refused.with_source(Refusal { code });
    }
    let (kind, detail) = match &error {
        Error::PoolTimedOut => {
            let detail = "no connection in time: the server cannot be reached or takes no more \
                connections, or the pool is too small for its callers";
            let error = StoreError::new(operation, ErrorKind::Unavailable, detail);
            return error.without_effect();
        }
        Error::PoolClosed => {
            let error = StoreError::new(operation, ErrorKind::Unavailable, "the pool is closed");
            return error.without_effect();
        }
        Error::Tls(_) => (ErrorKind::Invalid, "no TLS connection to the server"),
        Error::Configuration(_) => (ErrorKind::Invalid, "the connection is configured wrongly"),
        Error::Io(_) => (ErrorKind::Unavailable, "the connection to the server failed"),
        Error::WorkerCrashed | Error::BeginFailed => {
            (ErrorKind::Unavailable, "the connection to the server is unusable")
        }
        Error::Protocol(_) => {
            (ErrorKind::Unavailable, "the server, or a pooler before it, broke off the exchange")
        }
        _ => (ErrorKind::Unexpected, "the reply cannot be read"),
    };
    let failed = StoreError::new(operation, kind, detail);
    match error {
        // the driver's words about these may quote what was sent
        Error::Io(_) | Error::Tls(_) | Error::Protocol(_) => failed.with_source(error),
        _ => failed,
    }
}

/// What the server refused, by its code alone: its message may quote the key.
#[derive(Debug, thiserror::Error)]
#[error("SQLSTATE {code}")]
struct Refusal {
    code: String,
}

/// The table of codes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn refused(operation: Operation, code: &str) -> StoreError {
    let (kind, detail) = match code {
        "40001" | "40P01" => {
            (ErrorKind::Conflict, "other transactions got in the way in each of the tries")
        }
        "55P03" => (
            ErrorKind::Conflict,
            "a transaction holds the row longer than the lock time-out; it has to end first",
        ),
        "57014" => (ErrorKind::Timeout, "the server ended the statement (statement_timeout?)"),
        "25P03" | "25P04" | "57P05" => (ErrorKind::Timeout, "the server ended the session in time"),
        "40003" => {
            (ErrorKind::Unavailable, "the server does not know whether the statement was completed")
        }
        "25006" => (
            ErrorKind::Unavailable,
            "the server only reads: it is a standby, or default_transaction_read_only is on",
        ),
        "57P01" | "57P02" | "57P03" | "57P04" => {
            (ErrorKind::Unavailable, "the server starts, stops or recovers")
        }
        "53300" => (ErrorKind::Throttled, "the server takes no more connections"),
        "53100" => (ErrorKind::Full, "the server's disk is full"),
        "53200" | "53400" | "53000" => (ErrorKind::Throttled, "the server lacks resources"),
        "08P01" => (
            ErrorKind::Invalid,
            "the server, or a pooler before it, refuses the driver's messages: PgBouncer needs \
             ignore_startup_parameters = extra_float_digits, or a pool whose options are without it",
        ),
        "26000" | "42P05" => (
            ErrorKind::Invalid,
            "prepared statements get lost: PgBouncer in transaction mode needs version 1.21 or \
             newer and max_prepared_statements",
        ),
        "42P01" | "42883" | "3F000" | "42703" | "42704" => (
            ErrorKind::Invalid,
            "the table or its functions are missing or of another release: set them up with \
             `idempotency schema URL --apply`, `create=on` in the store URL, or Schema::create",
        ),
        "3D000" => (ErrorKind::Invalid, "there is no such database"),
        "42501" => (ErrorKind::Denied, "the role may not use the table or its functions"),
        _ => match code.get(..2) {
            Some("08") => (ErrorKind::Unavailable, "the connection to the server failed"),
            Some("28") => (ErrorKind::Denied, "the server refuses the role or its password"),
            Some("53" | "57" | "58") => (ErrorKind::Unavailable, "the server is in trouble"),
            Some("25") => (ErrorKind::Unexpected, "the session is in a transaction that failed"),
            Some("54") => (ErrorKind::TooLarge, "beyond a limit of the server"),
            _ => (ErrorKind::Unexpected, "the server refuses the statement"),
        },
    };
    StoreError::new(operation, kind, detail)
}

pub(crate) fn conflict(operation: Operation) -> StoreError {
    let detail = "others changed the row in each of the tries";
    StoreError::new(operation, ErrorKind::Conflict, detail).without_effect()
}

/// Whether the same statement may do at once what it could not do now: it was rolled back because of
/// others.
pub(crate) fn is_serialization(error: &Error) -> bool {
    code(error).is_some_and(|code| matches!(code.as_str(), "40001" | "40P01"))
}

/// Whether the connection is of no use any more; another one may be.
pub(crate) fn is_disconnection(error: &Error) -> bool {
    match error {
        Error::Io(_) | Error::Protocol(_) | Error::WorkerCrashed | Error::Tls(_) => true,
        _ => code(error).is_some_and(|code| ends_session(&code)),
    }
}

fn ends_session(code: &str) -> bool {
    matches!(code, "57P01" | "57P02" | "57P04" | "57P05" | "25P03" | "25P04")
        || code.starts_with("08")
}

fn code(error: &Error) -> Option<String> {
    error.as_database_error()?.code().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
