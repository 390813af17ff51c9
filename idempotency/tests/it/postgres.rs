//! `postgres:` URLs, on a real server.

use idempotency::{Severity, connect};
use test_servers::postgres::PostgresServer;

async fn refusal(url: &str) -> String {
    let error = connect(url).await.unwrap_err();
    format!("{error} {error:?}")
}

#[test]
fn a_postgres_url_gives_a_store_with_everything_it_can_do() {
    let server = PostgresServer::start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let base = server.url();
        let url = format!("{base}?table=intents&schema=shop&namespace=test&application_name=x");
        let missing = refusal(&url).await;
        assert!(missing.contains("intents") && missing.contains("create=on"), "{missing}");
        let connected = connect(&format!("{url}&create=on")).await.unwrap();
        assert_eq!(connected.store().profile().name, "postgres");
        assert!(connected.admin().is_some() && connected.sweep().is_some());
        assert!(connected.watch().is_some() && connected.schema().is_some());
        let findings = connected.doctor().unwrap().examine().await.unwrap();
        let hazards = findings.iter().filter(|found| found.severity == Severity::Hazard);
        assert_eq!(hazards.count(), 1, "{findings:?}");
        let quiet = connect(&format!("{url}&listen=off&group_commit=off&timeout_ms=500")).await;
        assert!(quiet.unwrap().watch().is_none());
    });
}

/// What only the server can refuse: nobody there, no such database, no such table.
#[test]
fn what_the_server_refuses_is_named_without_the_password() {
    let server = PostgresServer::start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = server.url();
        let (base, _database) = url.rsplit_once('/').unwrap();
        let cases = [
            ("postgres://u:hunter2@127.0.0.1:1/x?timeout_ms=500".to_owned(), "connect failed"),
            (format!("{base}/no_such_database?timeout_ms=5000"), "there is no such database"),
            (format!("{url}?table=no_such_table"), "no_such_table"),
        ];
        for (url, part) in cases {
            let shown = refusal(&url).await;
            assert!(shown.contains(part) && !shown.contains("hunter2"), "{url}: {shown}");
        }
    });
}
