//! Isolation, time zones and locks of others.

use futures_util::future::join_all;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Clock, CompleteRequest, Effect, ErrorKind, FinishOutcome, IdempotencyStore,
    Namespace, State, SystemClock,
};
use idempotency_postgres::{
    PostgresStore, PostgresTransaction,
    sqlx::{self, AssertSqlSafe, PgConnection, postgres::PgPoolOptions},
};
use std::time::Duration;

use crate::support::{
    Caller, TABLE, builder, connect, fingerprint, key, lease, number, raw, replayed, retention,
    runtime, server, soon, with_setting,
};

const ISOLATIONS: [&str; 3] = ["read committed", "repeatable read", "serializable"];

fn isolated(level: &str) -> String {
    with_setting(&server().url(), "default_transaction_isolation", level)
}

/// Kind of fault: the claim's statement answers nothing when a competitor's insert is not committed
/// yet (H-53). It waits, and then the competitor's outcome decides.
#[test]
fn a_claim_that_meets_an_uncommitted_one_waits_for_its_outcome() {
    runtime().block_on(async {
        let pool = raw(&server().url());
        for (level, commits) in ISOLATIONS.iter().flat_map(|level| [(level, true), (level, false)])
        {
            let namespace = unique_namespace();
            // a busy machine may be slow to commit
            let store = builder(&namespace).timeout(Duration::from_mins(1));
            let store = store.lock_timeout(Duration::from_secs(20));
            let store = store.connect(&isolated(level)).await.unwrap();
            let key = key("contended");
            let place = namespace.storage_key(&key).as_str().to_owned();
            let mut first = raw(&server().url()).begin().await.unwrap();
            let print = fingerprint().to_stored_bytes();
            let insert = format!(
                "SELECT {TABLE}_claim_v1($1, $2, gen_random_uuid(), 60000, 60000, \
                 true, 700)"
            );
            let insert = sqlx::query(AssertSqlSafe(insert)).bind(&place).bind(print.as_slice());
            insert.execute(&mut *first).await.unwrap();
            let caller = Caller::new(&key);
            let claiming = tokio::spawn({
                let (store, caller) = (store.clone(), caller.clone());
                async move { caller.claim(&store).await }
            });
            let pid: i32 =
                sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *first).await.unwrap();
            let waits = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE {pid} = ANY(pg_blocking_pids(pid))"
            );
            soon("it waits", async || (number(&pool, &waits).await == 1).then_some(())).await;
            assert!(!claiming.is_finished());
            if commits {
                first.commit().await.unwrap();
            } else {
                first.rollback().await.unwrap();
            }
            let outcome = claiming.await.unwrap().unwrap();
            if commits {
                assert!(matches!(outcome, ClaimOutcome::InProgress(_)), "{level}: {outcome:?}");
            } else {
                assert!(matches!(outcome, ClaimOutcome::Acquired(_)), "{level}: {outcome:?}");
            }
        }
    });
}

const ZONES: [&str; 4] = ["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Chatham"];

/// The driver begins each session in UTC, whatever its role, its database and its options say. So the
/// zone is set as an application can: in each session, by the pool that it hands in.
async fn in_zone(namespace: &Namespace, zone: &'static str) -> PostgresStore {
    let pool = PgPoolOptions::new().max_connections(2).after_connect(move |connection, _| {
        Box::pin(async move {
            let set = AssertSqlSafe(format!("SET TimeZone = '{zone}'"));
            sqlx::raw_sql(set).execute(connection).await.map(drop)
        })
    });
    let pool = pool.connect(&server().url()).await.unwrap();
    let store = builder(namespace).build(pool);
    let shown: String = sqlx::query_scalar("SHOW TimeZone").fetch_one(store.pool()).await.unwrap();
    assert_eq!(shown, zone);
    store
}

/// Kind of fault: expiry compared without its time zone (H-54): east of UTC a live claim counts as
/// expired, west of it an expired one as live.
#[test]
fn time_zones_of_sessions_change_nothing() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let mut stores = Vec::new();
        for zone in ZONES {
            stores.push(in_zone(&namespace, zone).await);
        }
        for (index, owner) in stores.iter().enumerate() {
            for (other_index, other) in stores.iter().enumerate() {
                let name = format!("{index}-{other_index}");
                let live = Caller::new(&key(format!("live {name}")));
                live.acquire(owner).await;
                let brief =
                    Caller { lease: lease(50), ..Caller::new(&key(format!("brief {name}"))) };
                brief.acquire(owner).await;
                let outcome = Caller::new(&live.key).claim(other).await.unwrap();
                let ClaimOutcome::InProgress(running) = outcome else { panic!("{outcome:?}") };
                assert!(running.lease_remaining > Duration::from_secs(25), "{running:?}");
                let done = live.complete(owner, "answer").await.unwrap();
                assert_eq!(done, FinishOutcome::Done);
                assert_eq!(replayed(other, &live.key).await, "answer");
                let heir = Caller::new(&brief.key);
                // a wrong zone is half an hour off at least
                soon("a takeover", async || {
                    let outcome = heir.claim(other).await.unwrap();
                    matches!(outcome, ClaimOutcome::Acquired(_)).then_some(())
                })
                .await;
            }
        }
    });
}

/// Kind of fault: a day is taken for 24 hours, or 24 hours for a day, where clocks are changed (H-54). A
/// retention of a year lasts as long in each zone.
#[test]
fn time_zones_change_no_duration() {
    runtime().block_on(async {
        let year = Duration::from_hours(365 * 24);
        let namespace = unique_namespace();
        for zone in ZONES {
            let store = in_zone(&namespace, zone).await;
            let millis = u64::try_from(year.as_millis()).unwrap();
            let caller = Caller { retention: retention(millis), ..Caller::new(&key(zone)) };
            caller.acquire(&store).await;
            let record = store.lookup(&caller.key).await.unwrap().unwrap();
            let State::InProgress { lease_until, .. } = record.state else { panic!("{record:?}") };
            assert_eq!(record.expires_at.since(lease_until), year, "{zone}");
            assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
            let record = store.lookup(&caller.key).await.unwrap().unwrap();
            let State::Completed { at, .. } = record.state else { panic!("{record:?}") };
            assert_eq!(record.expires_at.since(at), year, "{zone}");
        }
    });
}

/// Kind of fault: a deadlock between callers' transactions hangs them, or looks like success (H-57). Each
/// completes its own claim, and then that of the other.
#[test]
fn transactions_that_complete_in_opposite_order_end_with_a_conflict_and_one_of_them() {
    runtime().block_on(async {
        // the server's search for deadlocks begins after a second: both ends of it
        for lock_timeout in [Duration::from_millis(300), Duration::from_secs(10)] {
            let store = builder(&unique_namespace());
            let store = store.timeout(Duration::from_secs(30)).lock_timeout(lock_timeout);
            let store = store.connect(&server().url()).await.unwrap();
            let (one, two) = (Caller::new(&key("one")), Caller::new(&key("two")));
            one.acquire(&store).await;
            two.acquire(&store).await;
            let mut transactions = (store.begin().await.unwrap(), store.begin().await.unwrap());
            let complete = async |transaction: &mut PgConnection, caller: &Caller| {
                let request = CompleteRequest {
                    key: &caller.key,
                    token: caller.token,
                    attempt: caller.attempt,
                    fingerprint: fingerprint(),
                    response: "both".into(),
                    retention: caller.retention,
                };
                store.complete_claim_in(transaction, request).await
            };
            let done = complete(&mut transactions.0, &one).await.unwrap();
            assert_eq!(done, FinishOutcome::Done);
            let done = complete(&mut transactions.1, &two).await.unwrap();
            assert_eq!(done, FinishOutcome::Done);
            let ends = async |mut transaction: PostgresTransaction, caller: &Caller| match complete(
                &mut transaction,
                caller,
            )
            .await
            {
                Ok(FinishOutcome::Done) => transaction.commit().await.is_ok(),
                Ok(outcome) => panic!("{outcome:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                    assert_eq!(error.effect(), Effect::None, "{error}");
                    transaction.rollback().await;
                    false
                }
            };
            let (first, second) = transactions;
            let committed = futures_util::future::join(ends(first, &two), ends(second, &one)).await;
            // both may give up waiting at the same moment, both commit never
            assert!(!(committed.0 && committed.1), "{committed:?}");
            for caller in [&one, &two] {
                let outcome = Caller::new(&caller.key).claim(&store).await.unwrap();
                match outcome {
                    ClaimOutcome::Replay(_) => assert!(committed.0 || committed.1),
                    ClaimOutcome::InProgress(_) => assert!(!committed.0 && !committed.1),
                    other => panic!("{other:?}"),
                }
            }
        }
    });
}

/// Kind of fault: time stands still in a transaction, and with it every deadline that is set there.
#[test]
fn in_a_long_transaction_time_goes_on() {
    runtime().block_on(async {
        let store = connect(&server().url(), &unique_namespace()).await;
        let caller = Caller { retention: retention(60_000), ..Caller::new(&key("long")) };
        let mut transaction = store.begin().await.unwrap();
        let begun: i64 = sqlx::query_scalar("SELECT (extract(epoch FROM now()) * 1000)::bigint")
            .fetch_one(&mut *transaction)
            .await
            .unwrap();
        // claimed after the transaction began, and completed in it: the claim is not of the future
        caller.acquire(&store).await;
        let claimed = store.lookup(&caller.key).await.unwrap().unwrap().claimed_at;
        assert!(claimed.as_unix_millis() >= u64::try_from(begun).unwrap());
        let request = CompleteRequest {
            key: &caller.key,
            token: caller.token,
            attempt: caller.attempt,
            fingerprint: fingerprint(),
            response: "late".into(),
            retention: caller.retention,
        };
        sqlx::query("SELECT pg_sleep(0.1)").execute(&mut *transaction).await.unwrap();
        let done = store.complete_claim_in(&mut transaction, request).await.unwrap();
        assert_eq!(done, FinishOutcome::Done);
        transaction.commit().await.unwrap();
        let record = store.lookup(&caller.key).await.unwrap().unwrap();
        let State::Completed { at, .. } = record.state else { panic!("{record:?}") };
        assert!(at.as_unix_millis() >= u64::try_from(begun).unwrap() + 100, "{record:?}");
        assert_eq!(record.expires_at.since(at), Duration::from_mins(1));
    });
}

/// Kind of fault: serialization failures reach the caller (H-57).
#[test]
fn under_serializable_nobody_is_told_of_serialization() {
    runtime().block_on(async {
        for group_commit in [true, false] {
            let store = builder(&unique_namespace()).max_connections(16).group_commit(group_commit);
            let store = store.connect(&isolated("serializable")).await.unwrap();
            let different: Vec<_> = (0..50).map(|n| Caller::new(&key(n))).collect();
            let shared: Vec<_> = (0..10).map(|_| Caller::new(&key("shared"))).collect();
            let claims = different.iter().chain(&shared).map(|caller| caller.claim(&store));
            let outcomes = join_all(claims).await;
            let acquired = |outcome: &Result<ClaimOutcome, _>| {
                matches!(outcome, Ok(ClaimOutcome::Acquired(_)))
            };
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
            assert_eq!(outcomes[..50].iter().filter(|o| acquired(o)).count(), 50);
            assert_eq!(outcomes[50..].iter().filter(|o| acquired(o)).count(), 1);
            let completions = different.iter().map(|caller| caller.complete(&store, "answer"));
            let completed = join_all(completions).await;
            assert!(
                completed.iter().all(|c| matches!(c, Ok(FinishOutcome::Done))),
                "{completed:?}"
            );
        }
    });
}

/// Kind of fault: a row that a long transaction holds makes its callers wait without end.
#[test]
fn a_row_that_a_transaction_holds_is_answered_in_time() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let store = connect(&server().url(), &namespace).await;
        let owner = Caller { lease: lease(1), ..Caller::new(&key("held")) };
        owner.acquire(&store).await;
        let pool = raw(&server().url());
        let mut long = pool.begin().await.unwrap();
        let place = namespace.storage_key(&owner.key);
        let hold = format!("SELECT 1 FROM {TABLE} WHERE key = $1 FOR UPDATE");
        let hold = sqlx::query(AssertSqlSafe(hold)).bind(place.as_str());
        hold.execute(&mut *long).await.unwrap();
        let clock = SystemClock::new();
        let outcome = Caller::new(&owner.key).claim(&store).await.unwrap();
        assert!(matches!(outcome, ClaimOutcome::InProgress(_)), "{outcome:?}");
        let error = owner.complete(&store, "answer").await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Conflict, Effect::None));
        assert!(error.is_transient());
        // reading needs no lock
        assert!(store.lookup(&owner.key).await.unwrap().is_some());
        assert!(clock.monotonic() < Duration::from_secs(3), "{:?}", clock.monotonic());
        long.rollback().await.unwrap();
        assert_eq!(owner.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
    });
}
