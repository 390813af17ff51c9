//! Claims and completions that share a commit.

use std::time::Duration;

use futures_util::future::{join, join_all, join3};
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, ClaimToken, Effect, ErrorKind, FinishOutcome, IdempotencyKey, Namespace,
    StoreError, Watch,
};
use idempotency_postgres::{PostgresStore, sqlx, sqlx::AssertSqlSafe, sqlx::PgConnection};
use test_servers::postgres::CommitProxy;

use crate::support::{Caller, TABLE, builder, count, key, pooler, raw, replayed, runtime, server};

/// Callers of one store that meet: the first two go alone, and the rest has to share.
const CROWD: usize = 300;

/// What a test judges is who gets which answer, not how long a busy machine takes for it.
async fn patient(url: &str, namespace: &Namespace) -> PostgresStore {
    builder(namespace).timeout(Duration::from_mins(1)).connect(url).await.unwrap()
}

fn crowd() -> Vec<Caller> {
    (0..CROWD).map(|n| Caller::new(&key(n))).collect()
}

async fn claim_all(
    store: &PostgresStore,
    callers: &[Caller],
) -> Vec<Result<ClaimOutcome, StoreError>> {
    join_all(callers.iter().map(|caller| caller.claim(store))).await
}

async fn complete_all(
    store: &PostgresStore,
    callers: &[Caller],
) -> Vec<Result<FinishOutcome, StoreError>> {
    // each its own answer
    let answer = |caller: &Caller| format!("answer of {}", caller.key.key());
    join_all(callers.iter().map(|caller| caller.complete(store, answer(caller)))).await
}

fn acquired(outcomes: &[Result<ClaimOutcome, StoreError>]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Ok(ClaimOutcome::Acquired(_)))).count()
}

fn done(outcomes: &[Result<FinishOutcome, StoreError>]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Ok(FinishOutcome::Done))).count()
}

/// A row that no store has written.
async fn insert(
    connection: &mut PgConnection,
    namespace: &Namespace,
    key: &IdempotencyKey,
    format: i16,
) {
    let place = namespace.storage_key(key);
    let insert = format!(
        "INSERT INTO {TABLE} (key, format, state, token, attempt, retention_ms, \
         fingerprint, first_claimed_at, claimed_at, expires_at, sweep_at, lease_until) \
         VALUES ($1, $2, 0, gen_random_uuid(), 1, 1000, \
         convert_to(repeat('f', 33), 'UTF8'), now(), now(), now() + interval '1 h', \
         now() + interval '1 h', now() + interval '1 h')"
    );
    let insert = sqlx::query(AssertSqlSafe(insert)).bind(place.as_str()).bind(format);
    insert.execute(connection).await.unwrap();
}

/// As somebody's transaction holds it.
async fn lock(connection: &mut PgConnection, namespace: &Namespace, key: &IdempotencyKey) {
    let place = namespace.storage_key(key);
    let lock = sqlx::query("SELECT FROM idempotency_keys WHERE key = $1 FOR UPDATE");
    lock.bind(place.as_str()).execute(connection).await.unwrap();
}

#[test]
fn a_crowd_shares_a_few_statements() {
    runtime().block_on(async {
        let proxy = CommitProxy::start(server().address(), Duration::ZERO).await.unwrap();
        let store = patient(&proxy.url(), &unique_namespace()).await;
        let callers = crowd();
        let before = proxy.requests();
        assert_eq!(acquired(&claim_all(&store, &callers).await), CROWD);
        assert_eq!(done(&complete_all(&store, &callers).await), CROWD);
        // with those that open connections and prepare statements on them
        let sent = proxy.requests() - before;
        assert!(sent < 100, "{sent} round trips for {CROWD} claims and completions");
        for caller in &callers {
            let answer = replayed(&store, &caller.key).await;
            assert_eq!(answer, format!("answer of {}", caller.key.key()));
        }
    });
}

/// Kind of fault: one row that somebody's transaction holds sends all others off alone, each with a commit
/// of its own.
#[test]
fn a_locked_row_does_not_scatter_the_completions_around_it() {
    runtime().block_on(async {
        let (namespace, pool) = (unique_namespace(), raw(&server().url()));
        let proxy = CommitProxy::start(server().address(), Duration::ZERO).await.unwrap();
        let store = patient(&proxy.url(), &namespace).await;
        let callers = crowd();
        assert_eq!(acquired(&claim_all(&store, &callers).await), CROWD);
        let mut transaction = pool.begin().await.unwrap();
        lock(&mut transaction, &namespace, &callers[100].key).await;
        let before = proxy.requests();
        assert_eq!(done(&complete_all(&store, &callers).await), CROWD - 1);
        let sent = proxy.requests() - before;
        assert!(sent < 100, "{sent} round trips for {CROWD} completions");
        transaction.rollback().await.unwrap();
    });
}

/// Kind of fault: a deadlock between a caller's transaction and the store's statements, or between two
/// groups, reaches the caller (H-57). Claims and completions of the same keys, in both orders at once.
#[test]
fn groups_of_the_same_keys_in_any_order_do_not_deadlock() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let (one, two) = (
            patient(&server().url(), &namespace).await,
            patient(&server().url(), &namespace).await,
        );
        for round in 0..count(5, 50) {
            let keys: Vec<_> = (0..100).map(|n| key(format!("{round} {n}"))).collect();
            let forth: Vec<_> = keys.iter().map(Caller::new).collect();
            let back: Vec<_> = keys.iter().rev().map(Caller::new).collect();
            let (forths, backs) = join(claim_all(&one, &forth), claim_all(&two, &back)).await;
            assert_eq!(acquired(&forths) + acquired(&backs), 100, "{forths:?} {backs:?}");
            assert!(forths.iter().chain(&backs).all(Result::is_ok), "{forths:?} {backs:?}");
            // both complete what the first has, beside claims of it
            let won = |callers: &[Caller], outcomes: &[Result<ClaimOutcome, _>]| {
                let pairs = callers.iter().cloned().zip(outcomes);
                let won = pairs.filter(|(_, o)| matches!(o, Ok(ClaimOutcome::Acquired(_))));
                won.map(|(caller, _)| caller).collect::<Vec<_>>()
            };
            let mut winners = won(&forth, &forths);
            winners.extend(won(&back, &backs));
            let reversed: Vec<_> = winners.iter().rev().cloned().collect();
            let late: Vec<_> = keys.iter().map(Caller::new).collect();
            let (here, there, late) = join3(
                complete_all(&one, &winners),
                complete_all(&two, &reversed),
                claim_all(&one, &late),
            )
            .await;
            assert_eq!((done(&here), done(&there)), (100, 100), "{here:?} {there:?}");
            let waited = |outcome: &Result<ClaimOutcome, _>| {
                matches!(outcome, Ok(ClaimOutcome::InProgress(_) | ClaimOutcome::Replay(_)))
            };
            assert!(late.iter().all(waited), "{late:?}");
        }
    });
}

/// Kind of fault: one bad member fails the whole group. A key whose insert is held open, an unreadable
/// one and a repeated one, beside many good ones.
async fn bad_claims_fail_alone(url: &str) {
    let namespace = unique_namespace();
    let store = patient(url, &namespace).await;
    let pool = raw(&server().url());
    let (held, foreign) = (key("held"), key("foreign"));
    insert(&mut pool.acquire().await.unwrap(), &namespace, &foreign, 0).await;
    let mut long = pool.begin().await.unwrap();
    insert(&mut long, &namespace, &held, 1).await;
    let (good, held, foreign) = (crowd(), [Caller::new(&held)], [Caller::new(&foreign)]);
    let twins: Vec<_> = (0..20).map(|_| Caller::new(&key("twin"))).collect();
    // the lanes are taken by good ones
    let ((first, rest), (held, foreign, twins)) = join(
        join(claim_all(&store, &good[..2]), claim_all(&store, &good[2..])),
        join3(claim_all(&store, &held), claim_all(&store, &foreign), claim_all(&store, &twins)),
    )
    .await;
    let held = held[0].as_ref().unwrap_err();
    assert_eq!((held.kind(), held.effect()), (ErrorKind::Conflict, Effect::None), "{held}");
    assert_eq!(foreign[0].as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(acquired(&first) + acquired(&rest), CROWD, "{rest:?}");
    assert_eq!(acquired(&twins), 1, "{twins:?}");
    assert!(twins.iter().all(Result::is_ok), "{twins:?}");
    long.rollback().await.unwrap();
}

#[test]
fn one_bad_key_never_fails_the_claims_that_share_its_commit() {
    runtime().block_on(bad_claims_fail_alone(&server().url()));
}

/// Kind of fault: one bad member fails the whole group, or gets the answer of another one. A row that
/// somebody's transaction holds, an unreadable one, one of another attempt, one that is gone, a
/// repetition and a very long answer, beside many good ones.
async fn bad_completions_fail_alone(url: &str) {
    use FinishOutcome::{Done, Lost, Restored};
    let namespace = unique_namespace();
    let store = patient(url, &namespace).await;
    let pool = raw(&server().url());
    let named = |name| Caller::new(&key(name));
    let [held, foreign, taken, gone, again, long] =
        ["held", "foreign", "taken", "gone", "again", "long"].map(named);
    let good = crowd();
    assert_eq!(acquired(&claim_all(&store, &good).await), CROWD);
    for caller in [&held, &taken, &again, &long] {
        caller.acquire(&store).await;
    }
    insert(&mut pool.acquire().await.unwrap(), &namespace, &foreign.key, 0).await;
    assert_eq!(again.complete(&store, "first").await.unwrap(), FinishOutcome::Done);
    let mut transaction = pool.begin().await.unwrap();
    lock(&mut transaction, &namespace, &held.key).await;
    let stranger = Caller { token: ClaimToken::random().unwrap(), ..taken.clone() };
    let later = Caller { attempt: taken.attempt.next(), ..taken.clone() };
    let bad = [held, foreign, stranger, later, gone.clone(), again.clone()];
    let ((first, rest), (bad, long_one, twin)) = join(
        join(complete_all(&store, &good[..2]), complete_all(&store, &good[2..])),
        join3(
            complete_all(&store, &bad),
            long.complete(&store, vec![7_u8; 900_000]),
            complete_all(&store, &[taken.clone(), taken.clone()]),
        ),
    )
    .await;
    assert_eq!(done(&first) + done(&rest), CROWD, "{rest:?}");
    let errors = bad.iter().filter_map(|outcome| outcome.as_ref().err());
    let errors: Vec<_> = errors.map(|error| (error.kind(), error.effect())).collect();
    assert_eq!(errors, [(ErrorKind::Conflict, Effect::None), (ErrorKind::Corrupt, Effect::None)]);
    let answers: Vec<_> = bad.into_iter().filter_map(Result::ok).collect();
    assert_eq!(answers, [Lost, Lost, Restored, Done]);
    assert_eq!((long_one.unwrap(), done(&twin)), (Done, 2));
    transaction.rollback().await.unwrap();
    for caller in good.iter().chain([&taken, &gone]) {
        let answer = replayed(&store, &caller.key).await;
        assert_eq!(answer, format!("answer of {}", caller.key.key()));
    }
    assert_eq!(replayed(&store, &again.key).await, "first");
    assert_eq!(replayed(&store, &long.key).await.len(), 900_000);
}

#[test]
fn one_bad_key_never_fails_the_completions_that_share_its_commit() {
    runtime().block_on(bad_completions_fail_alone(&server().url()));
}

#[test]
fn one_bad_key_never_fails_its_neighbours_through_a_pooler() {
    runtime().block_on(async {
        bad_claims_fail_alone(&pooler().url()).await;
        bad_completions_fail_alone(&pooler().url()).await;
    });
}

/// C10: what a group has completed is as if each had been completed alone.
#[test]
fn a_shared_completion_leaves_what_a_lone_one_leaves() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let store = patient(&server().url(), &namespace).await;
        let lone = Caller::new(&key("lone"));
        lone.acquire(&store).await;
        assert_eq!(lone.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
        let callers = crowd();
        assert_eq!(acquired(&claim_all(&store, &callers).await), CROWD);
        for caller in &callers[..20] {
            let _held = caller.renew(&store, 1).await.unwrap();
        }
        // released by its owner, and not taken over since (C13)
        for caller in &callers[20..40] {
            let _told = caller.release(&store, idempotency_core::Release::Unknown).await.unwrap();
        }
        assert_eq!(done(&complete_all(&store, &callers).await), CROWD);
        let pool = raw(&server().url());
        // everything but the key and the moments, which differ by row
        let kinds: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM (SELECT DISTINCT state, attempt, sequence, retention_ms, format, \
             waited, fingerprint, checkpoint, lease_until, expires_at - ended_at, \
             sweep_at BETWEEN claimed_at AND expires_at + interval '1 h' \
             FROM idempotency_keys WHERE key LIKE $1) kinds",
        )
        .bind(format!("{}/%", namespace.name()))
        .fetch_one(&pool)
        .await
        .unwrap();
        assert_eq!(kinds, 1);
    });
}

/// Kind of fault: waiters who only poll, because the one they wait for shared its commit.
#[test]
fn a_waiter_is_told_of_a_shared_completion() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let (here, there) = (
            patient(&server().url(), &namespace).await,
            patient(&server().url(), &namespace).await,
        );
        let callers = crowd();
        assert_eq!(acquired(&claim_all(&here, &callers).await), CROWD);
        // beyond the two that go alone
        let mut watched = there.watch(&callers[200].key).await.unwrap();
        let mut other = there.watch(&key("nobody")).await.unwrap();
        assert_eq!(done(&complete_all(&here, &callers).await), CROWD);
        let told = tokio::time::timeout(Duration::from_secs(30), watched.changed()).await;
        told.expect("told").unwrap();
        let none = tokio::time::timeout(Duration::from_millis(50), other.changed()).await;
        assert!(none.is_err(), "told of nothing");
    });
}

/// Kind of fault: two statements with the same keys in another order wait for each other until one of them
/// fails.
#[test]
fn two_groups_with_the_same_keys_in_another_order_never_lock_each_other_out() {
    const KEYS: usize = 128;
    runtime().block_on(async {
        let namespace = unique_namespace();
        let pool = raw(&server().url());
        let claim = |keys: Vec<String>| {
            let pool = pool.clone();
            async move {
                let tokens: Vec<_> = keys.iter().map(|_| sqlx::types::Uuid::from_u128(7)).collect();
                let claimed = "SELECT count(*) FROM idempotency_keys_claim_many_v1($1, $2, $3, $4, $5, 10000)";
                sqlx::query_scalar::<_, i64>(claimed)
                    .bind(&keys)
                    .bind(vec![vec![1_u8; 33]; keys.len()])
                    .bind(tokens)
                    .bind(vec![1_000_i64; keys.len()])
                    .bind(vec![1_000_i64; keys.len()])
                    .fetch_one(&pool)
                    .await
            }
        };
        for round in 0..count(20, 200) {
            let keys: Vec<_> =
                (0..KEYS).map(|n| format!("{}/shop/{round} {n:03}", namespace.name())).collect();
            let reversed = keys.iter().rev().cloned().collect();
            let (one, other) = join(claim(keys), claim(reversed)).await;
            // whoever finds a key that was not there at first has no answer for it, and goes alone
            let answers = one.unwrap() + other.unwrap();
            assert!((128..=256).contains(&answers), "{answers}");
        }
    });
}
