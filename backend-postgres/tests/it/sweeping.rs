//! Removing what is past its retention, beside live traffic.

use futures_util::future::join_all;
use idempotency_conformance::unique_namespace;
use idempotency_core::{ClaimOutcome, FinishOutcome, Sweep};
use idempotency_postgres::sqlx;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::support::{
    Caller, builder, count, execute, fresh, key, lease, number, raw, replayed, retention, runtime,
    server, soon,
};

/// Kind of fault: each batch reads and sorts all that is due. So the planner would have it, which takes
/// the rows for few.
#[test]
fn a_batch_reads_what_it_removes() {
    runtime().block_on(async {
        let pool = raw(&server().url());
        let store = builder(&unique_namespace()).table("half_due").unwrap();
        let store = store.build_lazy(&server().url()).unwrap();
        idempotency_core::Schema::create(&store).await.unwrap();
        let fill = "INSERT INTO half_due (key, format, state, token, attempt, retention_ms, \
             fingerprint, first_claimed_at, claimed_at, expires_at, sweep_at, ended_at, response) \
             SELECT 'half/' || n, 1, 3, gen_random_uuid(), 1, 1000, \
             convert_to(repeat('f', 33), 'UTF8'), 'epoch', 'epoch', at, at, 'epoch', '' \
             FROM generate_series(1, 20000) n, LATERAL (SELECT now() + \
             (n % 2 - 0.5) * (1 + abs(hashint4(n) % 9970)) * interval '1 s') AS e (at); \
             ANALYZE half_due";
        execute(&pool, fill).await;
        // the first batch of a session reads the catalogs as well
        let mut session = pool.acquire().await.unwrap();
        let mut pages = 0;
        for _ in 0..2 {
            let explain =
                "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) SELECT * FROM half_due_sweep_v1(20)";
            let plan: Vec<String> =
                sqlx::query_scalar(explain).fetch_all(&mut *session).await.unwrap();
            let buffers = plan.iter().find(|line| line.contains("Buffers: shared"));
            let words = buffers.unwrap_or_else(|| panic!("{plan:?}")).split_whitespace();
            let read =
                words.filter_map(|word| word.strip_prefix("hit=").or(word.strip_prefix("read=")));
            pages = read.map(|pages| pages.parse::<i64>().unwrap()).sum();
        }
        drop(session);
        let all = number(&pool, "SELECT pg_relation_size('half_due') / 8192").await;
        assert!(pages * 3 < all, "a batch of 20 reads {pages} pages, and there are {all}");
    });
}

/// Kind of fault: one big removal blocks live traffic, and two cleaners block each other (H-58).
#[test]
fn two_sweepers_share_the_work_beside_claims() {
    runtime().block_on(async {
        let pool = raw(&server().url());
        let store = builder(&unique_namespace()).table("swept").unwrap();
        let store = store.build_lazy(&server().url()).unwrap();
        idempotency_core::Schema::create(&store).await.unwrap();
        let expired = i64::from(count(20_000, 1_000_000));
        execute(
            &pool,
            format!(
                "INSERT INTO swept (key, format, state, token, attempt, retention_ms, fingerprint, \
                 first_claimed_at, claimed_at, expires_at, sweep_at, ended_at, response) \
                 SELECT 'old/' || n, 1, 3, gen_random_uuid(), 1, 1000, \
                 convert_to(repeat('f', 33), 'UTF8'), 'epoch', 'epoch', now() - interval '1 s', \
                 now() - interval '1 s', 'epoch', '' FROM generate_series(1, {expired}) n; \
                 ANALYZE swept"
            ),
        )
        .await;
        // a batch reads what it removes, and not all that is due
        let batch = NonZeroU32::new(1_000).unwrap();
        // cancelled half-way: what was removed stays removed
        let _ = store.sweep(batch).await.unwrap();
        drop(tokio::time::timeout(Duration::from_millis(1), store.sweep(batch)).await);
        assert!(number(&pool, "SELECT count(*) FROM swept").await <= expired - 1_000);
        let sweeper = || async {
            let mut removed = 0;
            loop {
                let report = store.sweep(batch).await.unwrap();
                removed += report.removed;
                if !report.more {
                    return removed;
                }
            }
        };
        let callers: Vec<_> = (0..200).map(|n| Caller::new(&key(n))).collect();
        let claims = join_all(callers.iter().map(|caller| caller.acquire(&store)));
        let (one, two, _) = futures_util::future::join3(sweeper(), sweeper(), claims).await;
        assert!(one > 0 && two > 0, "{one} {two}");
        assert_eq!(number(&pool, "SELECT count(*) FROM swept").await, 200);
    });
}

/// Kind of fault: a record is removed between the moment a claim collides with it and the moment it
/// reads it. Never an error, whoever is faster.
#[test]
fn claims_beside_sweepers_of_the_same_keys_never_fail() {
    runtime().block_on(async {
        let store = fresh(&server().url()).await;
        let sweeping = store.sweep_every(Duration::from_millis(1));
        for round in 0..count(150, 3_000) {
            let callers: Vec<_> = (0..4)
                .map(|_| Caller {
                    lease: lease(1),
                    retention: retention(1),
                    ..Caller::new(&key(round % 3))
                })
                .collect();
            for outcome in join_all(callers.iter().map(|caller| caller.claim(&store))).await {
                assert!(
                    matches!(outcome, Ok(ClaimOutcome::Acquired(_) | ClaimOutcome::InProgress(_))),
                    "{outcome:?}"
                );
            }
        }
        drop(sweeping);
    });
}

/// The chapter on very high volume, as it stands in the documentation. Kind of fault: records that are there
/// are forgotten, and run again.
#[test]
fn the_documented_partitions_keep_what_is_there_and_work() {
    const CHAPTER: &str = include_str!("../../../docs/backends.md");
    let (_, statements) = CHAPTER.split_once("```sql\nBEGIN;").unwrap();
    let (statements, _) = statements.split_once("```").unwrap();
    let statements = format!("BEGIN;{statements}").replace("idempotency_keys", "parted");
    runtime().block_on(async {
        let pool = raw(&server().url());
        let store = builder(&unique_namespace()).table("parted").unwrap();
        let store = store.build_lazy(&server().url()).unwrap();
        idempotency_core::Schema::create(&store).await.unwrap();
        let before: Vec<_> = (0..100).map(|n| Caller::new(&key(n))).collect();
        for caller in &before {
            caller.acquire(&store).await;
            assert_eq!(caller.complete(&store, "before").await.unwrap(), FinishOutcome::Done);
        }
        // with plans that were made for the table without partitions
        execute(&pool, statements).await;
        for caller in &before {
            assert_eq!(replayed(&store, &caller.key).await, "before");
        }
        // what expires lies beside what lives, at the same places of other partitions
        let expired: Vec<_> = (0..300)
            .map(|n| Caller {
                lease: lease(1),
                retention: retention(1),
                ..Caller::new(&key(format!("brief {n}")))
            })
            .collect();
        let live: Vec<_> = (0..300).map(|n| Caller::new(&key(format!("live {n}")))).collect();
        join_all(expired.iter().chain(&live).map(|caller| caller.acquire(&store))).await;
        let all = join_all(live.iter().map(|caller| caller.complete(&store, "live"))).await;
        assert!(all.iter().all(|done| matches!(done, Ok(FinishOutcome::Done))), "{all:?}");
        let used = "SELECT count(DISTINCT tableoid) FROM parted";
        assert_eq!(number(&pool, used).await, 16);
        let batch = NonZeroU32::new(7).unwrap();
        let due = "SELECT count(*) FROM parted WHERE expires_at >= now()";
        soon("all are past their retention", async || {
            (number(&pool, due).await == 400).then_some(())
        })
        .await;
        let mut removed = 0;
        loop {
            let report = store.sweep(batch).await.unwrap();
            assert!(report.removed <= 7, "{report:?}");
            removed += report.removed;
            if !report.more {
                break;
            }
        }
        assert_eq!((removed, number(&pool, "SELECT count(*) FROM parted").await), (300, 400));
        for caller in &live {
            assert_eq!(replayed(&store, &caller.key).await, "live");
        }
        // whoever sets up again finds it done
        idempotency_core::Schema::create(&store).await.unwrap();
    });
}
