use std::time::Duration;

use async_trait::async_trait;
use idempotency_core::{Doctor, ErrorKind, Finding, Operation, Severity, StoreError};
use sqlx::{Row, postgres::PgListener, postgres::PgPoolOptions};
use tokio::time;

use crate::{PostgresStore, error, schema::SetUp};

/// What one look tells of the server and the table.
const LOOK: &str = "SELECT
    current_setting('server_version_num')::int4,
    current_setting('fsync'),
    current_setting('full_page_writes'),
    current_setting('synchronous_commit'),
    current_setting('default_transaction_isolation'),
    current_setting('autovacuum'),
    pg_is_in_recovery(),
    (SELECT c.relpersistence::text FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
        WHERE s.nspname = $1 AND c.relname = $2)";

#[async_trait]
impl Doctor for PostgresStore {
    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let prepared = self.prepared_statements().await?;
        if prepared.severity == Severity::Hazard {
            // nothing else can be asked for
            return Ok(vec![prepared]);
        }
        let mut findings = vec![prepared];
        let names = &self.inner.names;
        // not prepared by name: a pooler that loses those must not end the examination
        let query =
            || sqlx::query(LOOK).bind(names.schema()).bind(names.bare_table()).persistent(false);
        let row = self.inner.caller.row(Operation::Doctor, &query).await?;
        let failed = |source| error::classify(Operation::Doctor, source).without_effect();
        let text = |column: usize| row.try_get::<String, _>(column).map_err(failed);
        findings.push(version(row.try_get(0).map_err(failed)?));
        for (column, name, advice) in SWITCHES {
            findings.push(switch(name, &text(column)?, advice));
        }
        findings.push(isolation(&text(4)?));
        findings.push(standby(row.try_get(6).map_err(failed)?));
        findings.push(persistence(row.try_get::<Option<String>, _>(7).map_err(failed)?.as_deref()));
        findings.push(functions(self.set_up(Operation::Doctor).await?));
        findings.push(self.notifications().await);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Ok(findings)
    }
}

/// Settings that should be on, and what follows when they are not.
const SWITCHES: [(usize, &str, &str); 4] = [
    (1, "fsync", "a crash of the machine loses or damages acknowledged records; switch it on"),
    (2, "full_page_writes", "a crash of the machine damages pages; switch it on"),
    (
        3,
        "synchronous_commit",
        "a crash of the server loses the last acknowledged records, and what they stood for runs \
         again; switch it on for the role that uses this store",
    ),
    (5, "autovacuum", "the table grows without end; switch it on"),
];

fn finding(severity: Severity, subject: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { severity, subject: subject.into(), advice: advice.into() }
}

fn fine(subject: impl Into<String>) -> Finding {
    finding(Severity::Fine, subject, "")
}

fn switch(name: &str, value: &str, advice: &str) -> Finding {
    let subject = format!("{name} is {value}");
    match (name, value) {
        (_, "off") if name == "autovacuum" => finding(Severity::Warning, subject, advice),
        (_, "off") => finding(Severity::Hazard, subject, advice),
        _ => fine(subject),
    }
}

fn version(number: i32) -> Finding {
    const OLDEST: i32 = 12_00_00;
    let subject = format!("the server is PostgreSQL {}", number / 10_000);
    if number < OLDEST {
        let advice = "this release is tested with 15 and 18 and needs 12: upgrade";
        return finding(Severity::Hazard, subject, advice);
    }
    fine(subject)
}

fn isolation(level: &str) -> Finding {
    let subject = format!("default_transaction_isolation is {level}");
    if level == "read committed" {
        return fine(subject);
    }
    let advice = "everything works, but statements of different keys get in each other's way and are \
        sent again: set `read committed` for the role that uses this store";
    finding(Severity::Warning, subject, advice)
}

fn standby(is_standby: bool) -> Finding {
    if is_standby {
        let advice = "it cannot claim: connect to the primary (target_session_attrs)";
        return finding(Severity::Hazard, "the server is a standby", advice);
    }
    fine("the server is a primary")
}

fn persistence(kind: Option<&str>) -> Finding {
    match kind {
        Some("p") => fine("the table is logged"),
        Some("u") => {
            let advice = "a crash of the server empties it, and everything runs again: \
                ALTER TABLE .. SET LOGGED";
            finding(Severity::Hazard, "the table is unlogged", advice)
        }
        Some(_) => finding(Severity::Hazard, "the table is temporary", "create a real one"),
        None => finding(
            Severity::Hazard,
            "the table is missing",
            "set it up: `idempotency schema URL --apply`",
        ),
    }
}

fn functions(set_up: SetUp) -> Finding {
    match set_up {
        SetUp::Complete => fine("the functions are those of this release"),
        SetUp::Different => {
            let advice = "they answer the same questions; set them up again once all processes are \
                of one release";
            finding(Severity::Warning, "the functions are not those of this release", advice)
        }
        SetUp::Missing => finding(
            Severity::Hazard,
            "functions are missing",
            "set them up: `idempotency schema URL --apply`",
        ),
    }
}

impl PostgresStore {
    /// Whether prepared statements are found again, on several connections at once: a pooler in
    /// transaction mode gives each statement to any connection of its own.
    async fn prepared_statements(&self) -> Result<Finding, StoreError> {
        const CONNECTIONS: u32 = 3;
        const ROUNDS: u32 = 4;
        let options = self.pool().connect_options();
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(self.inner.caller.timeout)
            .connect_lazy_with(sqlx::postgres::PgConnectOptions::clone(&options));
        let work = async {
            let mut connections = Vec::new();
            for _ in 0..CONNECTIONS {
                connections.push(pool.acquire().await?);
            }
            for round in 0..ROUNDS {
                let sleeping = connections.iter_mut().map(|connection| {
                    // in flight at once, so that a pooler needs several connections
                    sqlx::query("SELECT pg_sleep($1)")
                        .bind(0.01 * f64::from(round % 2))
                        .execute(&mut **connection)
                });
                futures_util::future::try_join_all(sleeping).await?;
            }
            Ok::<(), sqlx::Error>(())
        };
        let outcome = time::timeout(self.inner.caller.timeout, work).await;
        Ok(match outcome {
            Ok(Ok(())) => fine("prepared statements work"),
            Ok(Err(error)) => {
                let error = error::classify(Operation::Doctor, error).without_effect();
                if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied) {
                    return Err(error);
                }
                let subject = format!("prepared statements do not work: {}", error.kind());
                let advice = "behind PgBouncer in transaction mode this store needs PgBouncer 1.21 or \
                    newer with max_prepared_statements above 0 (100, say), or pool_mode = session";
                finding(Severity::Hazard, subject, advice)
            }
            Err(_) => finding(
                Severity::Warning,
                "three connections at once took longer than the time-out",
                "look at the server's load and at the limits of its connections",
            ),
        })
    }

    /// Whether waiters are told.
    async fn notifications(&self) -> Finding {
        const PATIENCE: Duration = Duration::from_secs(1);
        const CHANNEL: &str = "idempotency_doctor";
        if self.inner.listening.is_none() {
            return fine("waiters poll: listening is switched off");
        }
        let payload = format!("{:016x}", fastrand::u64(..));
        let options = self.pool().connect_options();
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(sqlx::postgres::PgConnectOptions::clone(&options));
        let heard = async {
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.listen(CHANNEL).await?;
            let tell = || {
                sqlx::query("SELECT pg_notify($1, $2)")
                    .bind(CHANNEL)
                    .bind(&payload)
                    .persistent(false)
            };
            tell().execute(self.pool()).await?;
            while listener.recv().await?.payload() != payload {}
            Ok::<(), sqlx::Error>(())
        };
        match time::timeout(PATIENCE, heard).await {
            Ok(Ok(())) => fine("notifications arrive"),
            _ => finding(
                Severity::Warning,
                "notifications do not arrive",
                "waiters of other processes only poll; a pooler in transaction mode does not pass \
                 notifications on: switch listening off, it costs connections for nothing",
            ),
        }
    }
}
