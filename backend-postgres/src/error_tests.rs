use std::{error::Error as _, fmt, io};

use idempotency_core::Effect;
use sqlx::error::{DatabaseError, ErrorKind as DatabaseErrorKind};

use super::*;

#[derive(Debug)]
struct Fake(&'static str);

impl fmt::Display for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key (key)=(secret) already exists")
    }
}

impl std::error::Error for Fake {}

impl DatabaseError for Fake {
    fn message(&self) -> &'static str {
        "secret"
    }

    fn code(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some(self.0.into())
    }

    fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> DatabaseErrorKind {
        DatabaseErrorKind::Other
    }
}

fn database(code: &'static str) -> Error {
    Error::Database(Box::new(Fake(code)))
}

/// Kind of fault: everything is taken for worth a repetition, or nothing is. Each arm, and that what
/// the server has refused has not happened, unless it ended the session or does not know itself.
#[test]
fn every_code_has_its_kind_and_effect() {
    const UNKNOWN: [&str; 9] =
        ["25P03", "25P04", "40003", "57P01", "57P02", "57P04", "57P05", "08006", "08P01"];
    let cases = [
        ("40001", ErrorKind::Conflict),
        ("40P01", ErrorKind::Conflict),
        ("55P03", ErrorKind::Conflict),
        ("57014", ErrorKind::Timeout),
        ("25P03", ErrorKind::Timeout),
        ("25P04", ErrorKind::Timeout),
        ("40003", ErrorKind::Unavailable),
        ("57P05", ErrorKind::Timeout),
        ("25006", ErrorKind::Unavailable),
        ("57P01", ErrorKind::Unavailable),
        ("57P02", ErrorKind::Unavailable),
        ("57P03", ErrorKind::Unavailable),
        ("57P04", ErrorKind::Unavailable),
        ("53300", ErrorKind::Throttled),
        ("53100", ErrorKind::Full),
        ("53000", ErrorKind::Throttled),
        ("53200", ErrorKind::Throttled),
        ("53400", ErrorKind::Throttled),
        ("26000", ErrorKind::Invalid),
        ("42P05", ErrorKind::Invalid),
        ("08P01", ErrorKind::Invalid),
        ("42P01", ErrorKind::Invalid),
        ("42883", ErrorKind::Invalid),
        ("3F000", ErrorKind::Invalid),
        ("42703", ErrorKind::Invalid),
        ("42704", ErrorKind::Invalid),
        ("3D000", ErrorKind::Invalid),
        ("42501", ErrorKind::Denied),
        ("08006", ErrorKind::Unavailable),
        ("28P01", ErrorKind::Denied),
        ("58030", ErrorKind::Unavailable),
        ("25P02", ErrorKind::Unexpected),
        ("54000", ErrorKind::TooLarge),
        ("22P02", ErrorKind::Unexpected),
        ("", ErrorKind::Unexpected),
    ];
    for (code, kind) in cases {
        let error = classify(Operation::Claim, database(code));
        let effect = if UNKNOWN.contains(&code) { Effect::Unknown } else { Effect::None };
        assert_eq!((error.kind(), error.effect()), (kind, effect), "{code}");
    }
}

/// Kind of fault: after a lost connection the caller is told that nothing happened.
#[test]
fn a_connection_that_fails_leaves_the_effect_unknown() {
    let broken = || io::Error::from(io::ErrorKind::ConnectionReset);
    let cases = [
        (Error::Io(broken()), ErrorKind::Unavailable, Effect::Unknown),
        (Error::Protocol("?".into()), ErrorKind::Unavailable, Effect::Unknown),
        (Error::WorkerCrashed, ErrorKind::Unavailable, Effect::Unknown),
        (Error::Tls(broken().into()), ErrorKind::Invalid, Effect::Unknown),
        (Error::Configuration("?".into()), ErrorKind::Invalid, Effect::Unknown),
        (Error::Decode("?".into()), ErrorKind::Unexpected, Effect::Unknown),
        (Error::PoolTimedOut, ErrorKind::Unavailable, Effect::None),
        (Error::PoolClosed, ErrorKind::Unavailable, Effect::None),
    ];
    for (error, kind, effect) in cases {
        let shown = error.to_string();
        let error = classify(Operation::Complete, error);
        assert_eq!((error.kind(), error.effect()), (kind, effect), "{shown}");
    }
}

/// Kind of fault: a secret in a log line. The server quotes keys in its messages.
#[test]
fn a_refusal_shows_its_code_and_not_the_servers_words() {
    let error = classify(Operation::Claim, database("23505"));
    let shown = format!("{error} {error:?} {}", error.source().unwrap());
    assert!(shown.contains("23505") && !shown.contains("secret"), "{shown}");
}

#[test]
fn what_is_worth_another_try_is_told_apart() {
    for code in ["40001", "40P01"] {
        assert!(is_serialization(&database(code)) && !is_disconnection(&database(code)));
    }
    for code in ["57P01", "57P02", "57P05", "25P03", "08006"] {
        assert!(is_disconnection(&database(code)) && !is_serialization(&database(code)));
    }
    assert!(is_disconnection(&Error::Io(io::ErrorKind::BrokenPipe.into())));
    assert!(!is_disconnection(&Error::PoolTimedOut) && !is_serialization(&Error::PoolTimedOut));
}
