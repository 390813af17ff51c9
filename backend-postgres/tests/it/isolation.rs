//! Isolation, time zones and locks of others.

use futures_util::future::join_all;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Clock, Effect, ErrorKind, FinishOutcome, IdempotencyStore, SystemClock,
};
use idempotency_postgres::{sqlx, sqlx::AssertSqlSafe};
use std::time::Duration;

use crate::support::{
    Caller, TABLE, builder, connect, fingerprint, key, lease, raw, replayed, runtime, server, soon,
    with_setting,
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
