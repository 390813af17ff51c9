//! Claims that share a commit.

use futures_util::future::join_all;
use idempotency_conformance::unique_namespace;
use idempotency_core::{ClaimOutcome, Effect, ErrorKind};
use idempotency_postgres::{sqlx, sqlx::AssertSqlSafe};

use crate::support::{Caller, TABLE, connect, count, key, raw, runtime, server};

/// Kind of fault: a deadlock between a caller's transaction and the store's statements, or between two
/// groups, reaches the caller (H-57).
#[test]
fn groups_of_the_same_keys_in_any_order_do_not_deadlock() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let one = connect(&server().url(), &namespace).await;
        let two = connect(&server().url(), &namespace).await;
        for round in 0..count(5, 50) {
            let keys: Vec<_> = (0..100).map(|n| key(format!("{round} {n}"))).collect();
            let forth: Vec<_> = keys.iter().map(Caller::new).collect();
            let back: Vec<_> = keys.iter().rev().map(Caller::new).collect();
            let (forth, back) = futures_util::future::join(
                join_all(forth.iter().map(|caller| caller.claim(&one))),
                join_all(back.iter().map(|caller| caller.claim(&two))),
            )
            .await;
            let outcomes = forth.iter().chain(&back);
            let acquired = outcomes.map(|outcome| match outcome {
                Ok(ClaimOutcome::Acquired(_)) => 1,
                Ok(ClaimOutcome::InProgress(_)) => 0,
                other => panic!("{other:?}"),
            });
            assert_eq!(acquired.sum::<i32>(), 100);
        }
    });
}

/// Kind of fault: one bad member fails the whole group. A key whose insert is held open, an unreadable
/// one and a repeated one, beside many good ones.
#[test]
fn one_bad_key_never_fails_the_claims_that_share_its_commit() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let store = connect(&server().url(), &namespace).await;
        let pool = raw(&server().url());
        let (held, foreign) = (key("held"), key("foreign"));
        let insert = |format: i16, key: &idempotency_core::IdempotencyKey| {
            let place = namespace.storage_key(key).as_str().to_owned();
            let insert = format!(
                "INSERT INTO {TABLE} (key, format, state, token, attempt, retention_ms, \
                 fingerprint, first_claimed_at, claimed_at, expires_at, sweep_at, lease_until) \
                 VALUES ($1, $2, 0, gen_random_uuid(), 1, 1000, \
                 convert_to(repeat('f', 33), 'UTF8'), now(), now(), now() + interval '1 h', \
                 now() + interval '1 h', now() + interval '1 h')"
            );
            sqlx::query(AssertSqlSafe(insert)).bind(place).bind(format)
        };
        insert(0, &foreign).execute(&pool).await.unwrap();
        let mut long = pool.begin().await.unwrap();
        insert(1, &held).execute(&mut *long).await.unwrap();
        let good: Vec<_> = (0..300).map(|n| Caller::new(&key(n))).collect();
        let twins: Vec<_> = (0..20).map(|_| Caller::new(&key("twin"))).collect();
        let (held, foreign) = (Caller::new(&held), Caller::new(&foreign));
        let good_claims = join_all(good.iter().map(|caller| caller.claim(&store)));
        let twin_claims = join_all(twins.iter().map(|caller| caller.claim(&store)));
        let (held, foreign, good, twins) = futures_util::future::join4(
            held.claim(&store),
            foreign.claim(&store),
            good_claims,
            twin_claims,
        )
        .await;
        let held = held.unwrap_err();
        assert_eq!((held.kind(), held.effect()), (ErrorKind::Conflict, Effect::None), "{held}");
        assert_eq!(foreign.unwrap_err().kind(), ErrorKind::Corrupt);
        let acquired =
            |outcome: &&Result<ClaimOutcome, _>| matches!(outcome, Ok(ClaimOutcome::Acquired(_)));
        assert_eq!(good.iter().filter(acquired).count(), 300, "{good:?}");
        assert_eq!(twins.iter().filter(acquired).count(), 1, "{twins:?}");
        assert!(twins.iter().all(Result::is_ok), "{twins:?}");
        long.rollback().await.unwrap();
    });
}
