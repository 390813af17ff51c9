//! What is wrong with a URL is named by its part, with what is allowed, and never shows a password.

use idempotency::{ConnectError, connect};

/// The error for `url`, as a user sees it, and as a log may.
async fn refusal(url: &str) -> String {
    let error = match connect(url).await {
        Ok(connected) => panic!("{url} gave {connected:?}"),
        Err(error) => error,
    };
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hunter2"), "{url}: {shown}");
    let is_named = !matches!(error, ConnectError::Store(_));
    assert!(is_named, "{url}: the URL alone is enough to refuse it: {error}");
    shown
}

async fn check(cases: &[(&str, &str, &str)]) {
    for (url, part, allowed) in cases {
        let shown = refusal(url).await;
        assert!(shown.contains(part), "{url}: {part}: {shown}");
        assert!(shown.contains(allowed), "{url}: {allowed}: {shown}");
    }
}

#[tokio::test]
async fn a_scheme_that_is_missing_or_unknown() {
    check(&[
        ("", "cannot be read", "begins with a scheme"),
        ("u:hunter2@h/", "scheme", "`postgres:`"),
        ("//u:hunter2@h/", "cannot be read", "begins with a scheme"),
        ("localhost:6379", "scheme `localhost`", "`redis:`"),
        ("redsi://u:hunter2@h", "scheme `redsi`", "`redis:`"),
        ("mysql://u:hunter2@h", "scheme `mysql`", "`postgres:`"),
        ("rediss+unix:///hunter2", "scheme `rediss+unix`", "`redis+unix:`"),
    ])
    .await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn parts_of_a_redis_url() {
    check(&[
        ("redis://", "host", "an address"),
        ("redis:///2", "host", "it is missing"),
        ("redis://u:hunter2@", "host", "missing"),
        ("redis://u:hunter2@h:70000", "port", "1 to 65535"),
        ("redis://u:hunter2@h:port", "port", "1 to 65535"),
        ("redis://u:hunter2@[::1", "host", "in brackets"),
        ("redis://u:hunter2@a b/", "host", "a name or an address"),
        // a password with a character that ends the authority
        ("redis://u:hunter2#x@h", "port", "1 to 65535"),
        ("redis://u:hunter2@h/0#x", "fragment", "`%23`"),
        ("redis://u:hunter2@h/two", "path", "redis://HOST/2"),
        ("redis://u:hunter2@h/0/1", "path", "redis://HOST/2"),
        ("redis://u:hunter2@h/-1", "path", "redis://HOST/2"),
        ("redis+cluster://u:hunter2@a,b:x", "port", "1 to 65535"),
        ("redis+cluster://u:hunter2@a,,b", "host", "empty"),
        ("redis+cluster://u:hunter2@a,[::1", "host", "in brackets"),
        ("redis+cluster://u:hunter2@a,b/1", "path", "only one database"),
        ("redis+sentinel://u:hunter2@a,b", "path", "/SERVICE"),
        ("redis+sentinel://u:hunter2@a,b/orders/x", "path", "/SERVICE/DATABASE"),
        ("redis+sentinel://u:hunter2@a,b/orders/1/2", "path", "/SERVICE/DATABASE"),
        ("redis+unix:?pass=hunter2", "path", "redis+unix:///run/redis.sock"),
        ("redis+unix:///s?db=x&pass=hunter2", "`db`", "whole number"),
        ("redis://u:hunter2@h?db=1", "`db`", "`timeout_ms`"),
        ("redis://u:hunter2@h?colour=red", "`colour`", "`namespace`"),
        ("redis://h?password=hunter2", "`password`", "`namespace`"),
        ("redis://u:hunter2@h?namespace=a%20b", "`namespace`", "a-z"),
        ("redis://u:hunter2@h?namespace=", "`namespace`", "1 to 64"),
        ("redis://u:hunter2@h?timeout_ms=0", "`timeout_ms`", "from 1"),
        ("redis://u:hunter2@h?timeout_ms=1s", "`timeout_ms`", "milliseconds"),
        ("redis://u:hunter2@h?connect_timeout_ms=", "`connect_timeout_ms`", "milliseconds"),
        ("redis://u:hunter2@h?max_response_bytes=1k", "`max_response_bytes`", "bytes"),
        ("redis://u:hunter2@h?max_checkpoint_bytes=-1", "`max_checkpoint_bytes`", "bytes"),
        ("redis://u:hunter2@h?wait_replicas=0", "`wait_replicas`", "from 1"),
        ("redis://u:hunter2@h?wait_replicas_ms=soon", "`wait_replicas_ms`", "milliseconds"),
        ("redis://u:hunter2@h?timeout_ms=1&timeout_ms=2", "`timeout_ms`", "once"),
    ])
    .await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn parts_of_a_postgres_url() {
    check(&[
        ("postgres://u:hunter2@h:x/db", "port", "1 to 65535"),
        ("postgres://u:hunter2@[::1/db", "host", "in brackets"),
        ("postgresql://u:hunter2@h:99999/db", "port", "1 to 65535"),
        ("postgres://u:hunter2@h/db/x", "path", "/DATABASE"),
        ("postgres://u:hunter2@h/db#x", "fragment", "`%23`"),
        ("postgres://u:hunter2@h/db?table=", "`table`", "49"),
        ("postgres://u:hunter2@h/db?table=a$b", "`table`", "without `$`"),
        ("postgres://u:hunter2@h/db?schema=", "`schema`", "63 bytes"),
        ("postgres://u:hunter2@h/db?namespace=a%20b", "`namespace`", "a-z"),
        ("postgres://u:hunter2@h/db?listen=perhaps", "`listen`", "`on` or `off`"),
        ("postgres://u:hunter2@h/db?group_commit=1", "`group_commit`", "`on` or `off`"),
        ("postgres://u:hunter2@h/db?create=yes", "`create`", "`on` or `off`"),
        ("postgres://u:hunter2@h/db?timeout_ms=0", "`timeout_ms`", "from 1"),
        ("postgres://u:hunter2@h/db?lock_timeout_ms=x", "`lock_timeout_ms`", "milliseconds"),
        ("postgres://u:hunter2@h/db?max_connections=0", "`max_connections`", "from 1"),
        ("postgres://u:hunter2@h/db?max_response_bytes=x", "`max_response_bytes`", "bytes"),
        ("postgres://u:hunter2@h/db?sslmode=on", "`sslmode`", "`verify-full`"),
        ("postgres://u:hunter2@h/db?tabel=x", "`tabel`", "`table`"),
        ("postgres://h/db?password=hunter2", "`password`", "`table`"),
    ])
    .await;
}

/// A name of several hosts is Redis's alone: elsewhere nothing may be connected to by halves.
#[tokio::test]
async fn several_hosts_where_there_is_one() {
    #[cfg(feature = "redis")]
    check(&[("redis://u:hunter2@a,b", "host", "redis+cluster:")]).await;
    #[cfg(feature = "postgres")]
    check(&[("postgres://u:hunter2@a,b/db", "host", "one host")]).await;
}
