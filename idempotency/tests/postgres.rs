//! `postgres:` URLs, on a real server.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

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

#[test]
fn a_refused_url_names_the_part_and_no_password() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let base = "postgres://user:hunter2@127.0.0.1:1/x";
    runtime.block_on(async {
        let cases = [
            ("?table=", "`table`"),
            ("?table=a$b", "`table`"),
            ("?schema=", "`schema`"),
            ("?namespace=a%20b", "`namespace`"),
            ("?listen=perhaps", "`listen`"),
            ("?timeout_ms=0", "`timeout_ms`"),
            ("?max_connections=0", "`max_connections`"),
            ("?tabel=x", "`tabel`"),
            ("?timeout_ms=100", "connect failed"),
        ];
        for (query, part) in cases {
            let shown = refusal(&format!("{base}{query}")).await;
            assert!(shown.contains(part) && !shown.contains("hunter2"), "{query}: {shown}");
        }
    });
}
