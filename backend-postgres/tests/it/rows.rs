//! What is in the rows: foreign ones, own ones seen again, and none written for nothing.

use futures_util::future::join_all;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, ErrorKind, FinishOutcome, IdempotencyStore, Release, ReleaseOutcome,
    RenewOutcome, Sweep, Takeover,
};
use idempotency_postgres::sqlx;
use std::num::NonZeroU32;
use test_servers::postgres::PostgresServer;

use crate::support::{
    Caller, builder, execute, fresh, key, number, raw, replayed, runtime, server, set_up,
};

/// Kind of fault: an own lost success looks like a conflict (H-50): each operation again, after its
/// reply was thrown away.
#[test]
fn an_operation_whose_reply_was_lost_recognises_itself() {
    runtime().block_on(async {
        let store = fresh(&server().url()).await;
        let caller = Caller::new(&key("lost"));
        for _ in 0..2 {
            caller.acquire(&store).await;
        }
        for _ in 0..2 {
            let renewed = caller.renew(&store, 1).await.unwrap();
            assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
        }
        for _ in 0..2 {
            assert_eq!(caller.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
        }
        let released = Caller::new(&key("released"));
        released.acquire(&store).await;
        for _ in 0..2 {
            let outcome = released.release(&store, Release::Failed).await.unwrap();
            assert_eq!(outcome, ReleaseOutcome::Released);
        }
    });
}

/// Kind of fault: foreign or half-known rows (H-22): never answered, never overwritten, never swept, be
/// they expired or not (C00).
#[test]
fn rows_that_no_release_writes_are_refused_and_stay() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let store = builder(&namespace).table("damaged").unwrap();
        let store = store.build_lazy(&server().url()).unwrap();
        idempotency_core::Schema::create(&store).await.unwrap();
        let pool = raw(&server().url());
        let damages = [
            "state = 9",
            "state = 3",
            "state = 4",
            "response = 'x'",
            "fingerprint = ''",
            "attempt = 0",
            "attempt = 4294967296",
            "retention_ms = 0",
            "lease_until = NULL",
            "lease_until = 'infinity'",
            "ended_at = now()",
            "expires_at = 'infinity'",
            "expires_at = '-infinity'",
            "claimed_at = '-infinity'",
            "first_claimed_at = '1969-12-31'",
            "format = 2",
            "format = -1",
        ];
        let expiries =
            ["", ", sweep_at = '-infinity'", ", sweep_at = '-infinity', expires_at = '2001-01-01'"];
        for (damage, expired) in
            damages.iter().flat_map(|damage| expiries.map(|expired| (damage, expired)))
        {
            if expired.contains("expires_at") && damage.contains("expires_at") {
                continue;
            }
            let owner = Caller::new(&key(format!("{damage}{expired}")));
            owner.acquire(&store).await;
            let place = namespace.storage_key(&owner.key);
            let update = format!("UPDATE damaged SET {damage}{expired} WHERE key = $1");
            let update = sqlx::query(sqlx::AssertSqlSafe(update)).bind(place.as_str());
            assert_eq!(
                update.execute(&pool).await.unwrap().rows_affected(),
                1,
                "{damage}{expired}"
            );
            let _ = store.sweep(NonZeroU32::new(100).unwrap()).await.unwrap();
            let row = "SELECT md5(string_agg(d::text, ',' ORDER BY key)) FROM damaged d";
            let before: String = sqlx::query_scalar(row).fetch_one(&pool).await.unwrap();
            let corrupt = |kind| assert_eq!(kind, ErrorKind::Corrupt, "{damage}{expired}");
            for caller in [&owner, &Caller::new(&owner.key)] {
                for takeover in [Takeover::Allow, Takeover::Refuse] {
                    let claim = Caller { takeover, ..caller.clone() }.claim(&store).await;
                    corrupt(claim.unwrap_err().kind());
                }
                corrupt(caller.renew(&store, 1).await.unwrap_err().kind());
                corrupt(caller.complete(&store, "answer").await.unwrap_err().kind());
                corrupt(caller.release(&store, Release::Failed).await.unwrap_err().kind());
            }
            corrupt(store.lookup(&owner.key).await.unwrap_err().kind());
            let after: String = sqlx::query_scalar(row).fetch_one(&pool).await.unwrap();
            assert_eq!(before, after, "{damage}{expired}");
        }
    });
}

/// Whoever does not win writes nothing: no dead rows, no WAL.
#[test]
fn replays_and_refusals_write_nothing() {
    let server = PostgresServer::options().set("autovacuum", "off").start().unwrap();
    set_up(&server);
    runtime().block_on(async {
        let store = fresh(&server.url()).await;
        let (done, running) = (Caller::new(&key("done")), Caller::new(&key("running")));
        for caller in [&done, &running] {
            caller.acquire(&store).await;
        }
        assert_eq!(done.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
        let pool = raw(&server.url());
        execute(&pool, "CHECKPOINT").await;
        let written = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        // hint bits and the like of the first look
        assert_eq!(replayed(&store, &done.key).await, "answer");
        let before = number(&pool, written).await;
        for _ in 0..100 {
            assert_eq!(replayed(&store, &done.key).await, "answer");
            let outcome = Caller::new(&running.key).claim(&store).await.unwrap();
            assert!(matches!(outcome, ClaimOutcome::InProgress(_)), "{outcome:?}");
            running.acquire(&store).await;
        }
        let crowd: Vec<_> = (0..100).map(|_| Caller::new(&done.key)).collect();
        for outcome in join_all(crowd.iter().map(|caller| caller.claim(&store))).await {
            assert!(matches!(outcome, Ok(ClaimOutcome::Replay(_))), "{outcome:?}");
        }
        // the server itself notes running transactions now and then
        let grown = number(&pool, written).await - before;
        assert!(grown < 400, "{grown} bytes of WAL for 400 claims that wrote nothing");
    });
}
