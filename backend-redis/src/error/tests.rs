use std::io;

use super::*;

fn server(line: &str) -> RedisError {
    let reply = format!("-{line}\r\n");
    let value = redis::parse_redis_value(reply.as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

fn seen(error: &RedisError) -> (ErrorKind, Effect) {
    let error = classify(Operation::Claim, error);
    (error.kind(), error.effect())
}

#[test]
fn every_failure_has_a_kind_and_an_effect() {
    use idempotency_core::{Effect::*, ErrorKind::*};
    let io = |kind: io::ErrorKind| RedisError::from(io::Error::from(kind));
    let driver = |kind| RedisError::from((kind, "words"));
    for (error, expected) in [
        (io(io::ErrorKind::TimedOut), (Timeout, Unknown)),
        (io(io::ErrorKind::ConnectionRefused), (Unavailable, None)),
        (io::Error::other("invalid peer certificate: UnknownIssuer").into(), (Unavailable, None)),
        (io(io::ErrorKind::ConnectionReset), (Unavailable, Unknown)),
        (io(io::ErrorKind::UnexpectedEof), (Unavailable, Unknown)),
        (driver(redis::ErrorKind::ClusterConnectionNotFound), (Unavailable, None)),
        (driver(redis::ErrorKind::AuthenticationFailed), (Denied, None)),
        (driver(redis::ErrorKind::InvalidClientConfig), (Invalid, None)),
        (driver(redis::ErrorKind::Parse), (Unexpected, Unknown)),
        (driver(redis::ErrorKind::UnexpectedReturnType), (Unexpected, Unknown)),
        (server("LOADING Redis is loading the dataset in memory"), (Unavailable, None)),
        (server("MASTERDOWN Link with MASTER is down"), (Unavailable, None)),
        (server("CLUSTERDOWN The cluster is down"), (Unavailable, None)),
        (server("TRYAGAIN Multiple keys request during rehashing of slot"), (Unavailable, None)),
        (server("READONLY You can't write against a read only replica."), (Unavailable, None)),
        (server("MOVED 3999 127.0.0.1:6381"), (Unavailable, None)),
        (server("ASK 3999 127.0.0.1:6381"), (Unavailable, None)),
        (server("BUSY Redis is busy running a script."), (Unavailable, None)),
        (server("MISCONF Errors writing to the AOF file"), (Unavailable, None)),
        (server("NOREPLICAS Not enough good replicas to write."), (Unavailable, None)),
        (server("OOM command not allowed when used memory > 'maxmemory'."), (Full, None)),
        (server("NOAUTH Authentication required."), (Denied, None)),
        (server("WRONGPASS invalid username-password pair"), (Denied, None)),
        (server("NOPERM this user has no permissions"), (Denied, None)),
        (server("WRONGTYPE Operation against a key"), (Corrupt, None)),
        (server("DENIED Redis is running in protected mode"), (Denied, None)),
        (server("ERR DB index is out of range"), (Invalid, None)),
        (server("ERR SELECT is not allowed in cluster mode"), (Invalid, None)),
        // of what the driver sends first it leaves the code out
        (server("ERR User app has no permissions to run the 'select' command"), (Denied, None)),
        (server("ERR unknown command 'SETT'"), (Unexpected, Unknown)),
        (server("SOMETHING new"), (Unexpected, Unknown)),
        // what a script got, before Redis 7
        (
            server(
                "@user_script: 9: The user executing the script can't run this command or subcommand",
            ),
            (Denied, None),
        ),
        (
            server(
                "ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed",
            ),
            (Full, None),
        ),
        (
            server(
                "ERR Error running script (call to f_1): @user_script:9: -READONLY You can't write",
            ),
            (Unavailable, None),
        ),
    ] {
        assert_eq!(seen(&error), expected, "{error}");
    }
}

#[test]
fn the_servers_own_words_are_left_out() {
    for leak in [
        "ERR unknown command 'X', with args beginning with: 'secret-key' ",
        "NOPERM User secret has no permissions to access the 'secret-key' key",
    ] {
        let error = classify(Operation::Claim, &server(leak));
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        assert!(std::error::Error::source(&error).is_none());
    }
}

/// A person has to read them: what it is about, and what to do.
#[test]
fn refusals_say_what_to_do() {
    for (line, advice) in [
        ("NOAUTH Authentication required.", "PASSWORD@HOST"),
        ("WRONGPASS invalid username-password pair", "user or the password"),
        ("NOPERM User app has no permissions to run the 'set' command", "grant it `+set`"),
        ("NOPERM something new", "docs/backends.md"),
        ("ERR DB index is out of range", "`databases`"),
        ("ERR SELECT is not allowed in cluster mode", "leave the number out"),
        ("OOM command not allowed when used memory > 'maxmemory'.", "raise `maxmemory`"),
        ("NOREPLICAS Not enough good replicas to write.", "`min-replicas-to-write`"),
    ] {
        let told = classify(Operation::Connect, &server(line)).to_string();
        assert!(told.contains(advice), "{line}: {told}");
    }
}

#[test]
fn what_is_worth_another_try_and_what_asks_for_a_script() {
    assert!(
        is_worth_another_try(&server("READONLY no")) && is_worth_another_try(&server("LOADING x"))
    );
    assert!(!is_worth_another_try(&server("OOM no")) && !is_worth_another_try(&server("ERR x")));
    assert!(!is_worth_another_try(&io::Error::from(io::ErrorKind::TimedOut).into()));
    assert!(is_unknown_script(&server("NOSCRIPT No matching script.")));
    assert!(is_unknown_syntax(&server("ERR syntax error")) && !is_unknown_syntax(&server("ERR x")));
    assert!(is_redirection(&server("ASK 1 a:1")) && !is_redirection(&server("READONLY x")));
}
