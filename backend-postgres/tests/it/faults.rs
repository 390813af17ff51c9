//! Known faults of others, on real servers.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Clock, Effect, ErrorKind, FinishOutcome, Idempotency, IdempotencyStore, Never,
    Outcome, Release, ReleaseOutcome, RenewOutcome, Sweep, SystemClock, Takeover,
};
use idempotency_postgres::{
    PostgresStore,
    sqlx::{self, AssertSqlSafe},
};
use test_servers::postgres::PostgresServer;

use crate::{
    proxy::Proxy,
    support::{
        Caller, TABLE, builder, connect, count, execute, fingerprint, fresh, key, lease, number,
        raw, replayed, retention, runtime, server, set_up, soon, with_setting,
    },
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
        for (level, commits) in ISOLATIONS.iter().flat_map(|level| [(level, true), (level, false)])
        {
            let namespace = unique_namespace();
            let store = connect(&isolated(level), &namespace).await;
            let key = key("contended");
            let place = namespace.storage_key(&key).as_str().to_owned();
            let mut first = raw(&server().url()).begin().await.unwrap();
            let print = fingerprint().to_stored_bytes();
            let insert = format!(
                "SELECT verdict FROM {TABLE}_claim_v1($1, $2, gen_random_uuid(), 60000, 60000, \
                 true, 700)"
            );
            let insert = sqlx::query(AssertSqlSafe(insert)).bind(&place).bind(print.as_slice());
            insert.execute(&mut *first).await.unwrap();
            let caller = Caller::new(&key);
            let claiming = tokio::spawn({
                let (store, caller) = (store.clone(), caller.clone());
                async move { caller.claim(&store).await }
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(!claiming.is_finished(), "it has to wait");
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

/// Kind of fault: expiry compared without its time zone (H-54): east of UTC a live claim counts as
/// expired, west of it an expired one as live.
#[test]
fn time_zones_of_sessions_change_nothing() {
    runtime().block_on(async {
        let zones = ["UTC", "Asia/Kolkata", "America/New_York", "Pacific/Chatham"];
        let namespace = unique_namespace();
        let mut stores = Vec::new();
        for zone in zones {
            let url = with_setting(&server().url(), "TimeZone", zone);
            stores.push(builder(&namespace).max_connections(2).connect(&url).await.unwrap());
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
                let clock = SystemClock::new();
                let heir = Caller::new(&brief.key);
                soon("a takeover", async || {
                    let outcome = heir.claim(other).await.unwrap();
                    matches!(outcome, ClaimOutcome::Acquired(_)).then_some(())
                })
                .await;
                assert!(clock.monotonic() < Duration::from_secs(1), "{:?}", clock.monotonic());
            }
        }
    });
}

/// Kind of fault: a future dropped in the middle of a statement leaves its connection in a state that
/// nobody expects (H-55). One connection, a slow network, and callers who lose their patience.
#[test]
fn dropped_operations_leave_a_pool_of_one_usable() {
    runtime().block_on(async {
        let proxy = Proxy::start(server().address(), Duration::from_millis(10)).await;
        let namespace = unique_namespace();
        let url = format!("{}?application_name=cancelled", proxy.url());
        let store = builder(&namespace).max_connections(1).connect(&url).await.unwrap();
        let direct = connect(&server().url(), &namespace).await;
        for round in 0..count(30, 1_000) {
            let patience = || Duration::from_micros(fastrand::u64(0..40_000));
            let dropped = Caller::new(&key(format!("dropped {round}")));
            let claimed = tokio::time::timeout(patience(), dropped.claim(&store)).await;
            if let Ok(claimed) = claimed {
                let _ = claimed.unwrap();
                let completed = dropped.complete(&store, "answer");
                let _patience = tokio::time::timeout(patience(), completed).await;
            }
            let next = Caller::new(&key(format!("next {round}")));
            next.acquire(&store).await;
            let seen = direct.lookup(&next.key).await.unwrap();
            assert!(seen.is_some(), "a claim that was acknowledged and is not there");
        }
        let pool = raw(&server().url());
        let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cancelled' \
            AND state LIKE 'idle in transaction%'";
        assert_eq!(number(&pool, open).await, 0);
    });
}

/// Kind of fault: a connection is held while the work runs, and the work needs one of the same pool
/// (H-56).
#[test]
fn work_that_uses_the_stores_pool_finds_connections_in_it() {
    runtime().block_on(async {
        let store = builder(&unique_namespace()).max_connections(5);
        let store = store.connect(&server().url()).await.unwrap();
        let idempotency = Idempotency::new(store.connected());
        let clock = SystemClock::new();
        let work = |number: u32| {
            let (store, idempotency) = (store.clone(), idempotency.clone());
            async move {
                let key = key(number);
                let run = idempotency.run(&key, fingerprint(), async |_| {
                    let sleep = sqlx::query("SELECT pg_sleep(0.1)").execute(store.pool());
                    sleep.await.unwrap();
                    if number.is_multiple_of(5) {
                        let failed = sqlx::query("SELECT 1 / 0").execute(store.pool()).await;
                        assert!(failed.is_err());
                    }
                    Ok::<_, Never>(number)
                });
                run.await.unwrap()
            }
        };
        let all = join_all((0..50).map(work)).await;
        assert!(all.iter().all(|outcome| matches!(outcome, Outcome::Executed(Ok(_)))), "{all:?}");
        assert!(clock.monotonic() < Duration::from_secs(5), "{:?}", clock.monotonic());
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

/// Kind of fault: one big removal blocks live traffic, and two cleaners block each other (H-58).
#[test]
fn two_sweepers_share_the_work_beside_claims_and_use_the_index() {
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
        let plan: Vec<String> = sqlx::query_scalar(
            "EXPLAIN SELECT ctid FROM swept WHERE sweep_at < now() AND format = 1 \
             ORDER BY sweep_at LIMIT 1000 FOR UPDATE SKIP LOCKED",
        )
        .fetch_all(&pool)
        .await
        .unwrap();
        assert!(
            plan.iter().any(|line| line.contains("Index Scan using swept_sweep_at")),
            "{plan:?}"
        );
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

/// Kind of fault: foreign or half-known rows (H-22), in a table that has lost its constraint: never
/// answered, never overwritten, never swept.
#[test]
fn rows_that_no_release_writes_are_refused_and_stay() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let store = builder(&namespace).table("damaged").unwrap();
        let store = store.build_lazy(&server().url()).unwrap();
        idempotency_core::Schema::create(&store).await.unwrap();
        let pool = raw(&server().url());
        execute(&pool, "ALTER TABLE damaged DROP CONSTRAINT format_1").await;
        let damages = [
            "state = 9",
            "state = 3",
            "fingerprint = ''",
            "attempt = 0",
            "lease_until = NULL",
            "expires_at = 'infinity'",
            "format = 2, sweep_at = '-infinity', expires_at = '-infinity'",
            "format = -1, sweep_at = '-infinity', expires_at = '-infinity'",
        ];
        for (number, damage) in damages.iter().enumerate() {
            let owner = Caller::new(&key(number));
            owner.acquire(&store).await;
            let place = namespace.storage_key(&owner.key);
            execute(&pool, format!("UPDATE damaged SET {damage} WHERE key = '{}'", place.as_str()))
                .await;
            let _ = store.sweep(NonZeroU32::new(100).unwrap()).await.unwrap();
            let row = "SELECT md5(string_agg(d::text, ',' ORDER BY key)) FROM damaged d";
            let before: String = sqlx::query_scalar(row).fetch_one(&pool).await.unwrap();
            for caller in [&owner, &Caller::new(&owner.key)] {
                for takeover in [Takeover::Allow, Takeover::Refuse] {
                    let claim = Caller { takeover, ..caller.clone() }.claim(&store).await;
                    assert_eq!(claim.unwrap_err().kind(), ErrorKind::Corrupt, "{damage}");
                }
            }
            assert_eq!(store.lookup(&owner.key).await.unwrap_err().kind(), ErrorKind::Corrupt);
            let after: String = sqlx::query_scalar(row).fetch_one(&pool).await.unwrap();
            assert_eq!(before, after, "{damage}");
        }
    });
}

/// Kinds of fault: acknowledged and then lost when the server dies, and a client that never finds back
/// to it. Killed on the spot while clients work.
#[test]
fn a_server_that_is_killed_loses_nothing_it_has_acknowledged() {
    let server = PostgresServer::options().set("fsync", "on").start().unwrap();
    set_up(&server);
    runtime().block_on(async {
        let store = Arc::new(fresh(&server.url()).await);
        let is_back = Arc::new(AtomicBool::new(false));
        let worker = |worker: u32| {
            let (store, is_back) = (Arc::clone(&store), Arc::clone(&is_back));
            tokio::spawn(async move {
                let (mut done, mut number, mut since) = (Vec::new(), 0, 0);
                // some before the crash, some after it
                while since < 20 {
                    number += 1;
                    assert!(number < 20_000, "it never comes back");
                    let caller = Caller::new(&key(format!("{worker} {number}")));
                    let was_back = is_back.load(Ordering::SeqCst);
                    if work(&store, &caller).await.is_some() {
                        done.push(caller.key);
                        since += u32::from(was_back);
                    }
                }
                done
            })
        };
        let workers: Vec<_> = (0..8).map(worker).collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::task::block_in_place(|| server.crash_and_restart()).unwrap();
        is_back.store(true, Ordering::SeqCst);
        for done in join_all(workers).await {
            for key in done.unwrap() {
                assert_eq!(replayed(&*store, &key).await, "answer", "acknowledged and lost");
            }
        }
    });
}

/// Claims and completes; none when the store failed on the way.
async fn work(store: &PostgresStore, caller: &Caller) -> Option<()> {
    let claimed = caller.claim(store).await;
    if !matches!(claimed, Ok(ClaimOutcome::Acquired(_))) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        return None;
    }
    let completed = caller.complete(store, "answer").await.ok()?;
    assert_ne!(completed, FinishOutcome::Lost);
    Some(())
}

/// Kind of fault: without the store the request goes on unprotected, or hangs (H-59).
#[test]
fn a_server_that_hangs_fails_closed_in_time_and_is_used_again_afterwards() {
    let server = PostgresServer::start().unwrap();
    set_up(&server);
    runtime().block_on(async {
        let store = builder(&unique_namespace()).timeout(Duration::from_millis(500));
        let store = store.connect(&server.url()).await.unwrap();
        let idempotency = Idempotency::builder(store.connected())
            .store_timeout(Duration::from_millis(600))
            .store_deadline(Duration::from_millis(1_200))
            .build()
            .unwrap();
        let run = |name: &'static str| {
            let idempotency = idempotency.clone();
            async move {
                let ran = AtomicBool::new(false);
                let key = key(name);
                let outcome = idempotency.run(&key, fingerprint(), async |_| {
                    ran.store(true, Ordering::SeqCst);
                    Ok::<_, Never>(1)
                });
                let outcome = outcome.await;
                (outcome, ran.load(Ordering::SeqCst))
            }
        };
        assert!(matches!(run("before").await, (Ok(Outcome::Executed(_)), true)));
        server.process().freeze().unwrap();
        freeze_children(&server, "STOP");
        let clock = SystemClock::new();
        let (outcome, ran) = run("during").await;
        assert!(outcome.is_err() && !ran, "{outcome:?}");
        assert!(clock.monotonic() < Duration::from_secs(3), "{:?}", clock.monotonic());
        freeze_children(&server, "CONT");
        server.process().thaw().unwrap();
        soon("the store again", async || run("after").await.0.is_ok().then_some(())).await;
    });
}

/// The postmaster answers nothing by itself: its children do.
fn freeze_children(server: &PostgresServer, signal: &str) {
    let parent = server.process().pid().to_string();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    for child in children.unwrap_or_default().split_whitespace() {
        let kill = std::process::Command::new("kill").args(["-s", signal, child]).status();
        assert!(kill.unwrap().success());
    }
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
