//! Work that completes its own attempt inside a transaction of its own.

use std::time::Duration;

use futures_util::future::join_all;
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    Answer, Begun, ClaimGuard, ClaimOutcome, ErrorKind, FinishOutcome, Idempotency, IdempotencyKey,
    IdempotencyStore, Joined, OnStoreFailure, Otherwise, Recorded, Release, State,
};
use idempotency_postgres::{
    PostgresStore,
    sqlx::{self, AssertSqlSafe, PgConnection},
};

use crate::support::{
    Caller, builder, execute, fingerprint, key, lease, number, raw, runtime, server, soon,
    with_setting,
};

/// A store, an executor with a short lease, and a table of its own for effects.
struct Shop {
    store: PostgresStore,
    idempotency: Idempotency,
    table: String,
}

impl Shop {
    async fn open(url: &str) -> Self {
        let store = builder(&unique_namespace()).connect(url).await.unwrap();
        let idempotency = Idempotency::builder(store.connected())
            .lease(lease(900))
            .store_timeout(Duration::from_millis(300));
        let table = format!("effects_{:016x}", fastrand::u64(..));
        execute(&raw(url), format!("CREATE TABLE {table} (key text NOT NULL)")).await;
        Self { store, idempotency: idempotency.build().unwrap(), table }
    }

    async fn begin(&self, key: &IdempotencyKey) -> ClaimGuard {
        match self.idempotency.begin(key, fingerprint()).await.unwrap() {
            Begun::Acquired(guard) => guard,
            other => panic!("{other:?}"),
        }
    }

    async fn write(&self, connection: &mut PgConnection, key: &IdempotencyKey) {
        let write = AssertSqlSafe(format!("INSERT INTO {} VALUES ($1)", self.table));
        sqlx::query(write).bind(key.key()).execute(connection).await.unwrap();
    }

    async fn effects(&self) -> i64 {
        number(self.store.pool(), format!("SELECT count(*) FROM {}", self.table)).await
    }

    async fn replayed(&self, key: &IdempotencyKey) -> Answer {
        match self.idempotency.begin(key, fingerprint()).await.unwrap() {
            Begun::Replayed(replayed) => replayed.answer,
            other => panic!("{other:?}"),
        }
    }
}

/// The row lock keeps the key beyond the lease, from the completion to the commit, without a heartbeat.
#[test]
fn effect_and_answer_of_an_attempt_are_committed_together() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open(&server().url()).await, key("order"));
        let guard = shop.begin(&key).await;
        let (attempt, answer) = (guard.attempt().clone(), Answer::bytes("charged"));
        let mut transaction = shop.store.begin().await.unwrap();
        shop.write(&mut transaction, &key).await;
        let done = shop.store.complete_in(&mut transaction, &attempt, &answer).await.unwrap();
        assert_eq!(done, FinishOutcome::Done);
        assert_eq!(shop.effects().await, 0);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let other = Caller::new(&key).claim(&shop.store).await.unwrap();
        assert!(matches!(other, ClaimOutcome::InProgress(_)), "{other:?}");
        transaction.commit().await.unwrap();
        assert_eq!(shop.effects().await, 1);
        // whatever is said afterwards, the first answer stays
        assert!(matches!(guard.complete(Answer::bytes("other")).await, Recorded::Stored));
        assert_eq!(shop.replayed(&key).await, answer);
    });
}

#[test]
fn a_rollback_takes_the_answer_with_it() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open(&server().url()).await, key("order"));
        for is_dropped in [true, false] {
            let guard = shop.begin(&key).await;
            let (attempt, answer) = (guard.attempt().clone(), Answer::bytes("charged"));
            let mut transaction = shop.store.begin().await.unwrap();
            shop.write(&mut transaction, &key).await;
            let done = shop.store.complete_in(&mut transaction, &attempt, &answer).await.unwrap();
            assert_eq!(done, FinishOutcome::Done);
            // a dropped one is rolled back in the background, and the release waits for its row
            if is_dropped {
                drop(transaction);
            } else {
                transaction.rollback().await;
            }
            let joined = guard.joined(Otherwise::Release(Release::Failed)).await;
            assert!(matches!(joined, Joined::Released(Release::Failed)), "{joined:?}");
            assert_eq!(shop.effects().await, 0);
        }
    });
}

/// Kind of fault: a stale owner commits beside its successor (H-06, within a database).
#[test]
fn an_attempt_whose_key_was_taken_over_is_told_to_roll_back() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open(&server().url()).await, key("stale"));
        let guard = shop.begin(&key).await;
        let (attempt, answer) = (guard.attempt().clone(), Answer::bytes("stale"));
        // the heartbeat has ended with the first transaction, which was rolled back
        let mut first = shop.store.begin().await.unwrap();
        let _ = shop.store.complete_in(&mut first, &attempt, &answer).await.unwrap();
        first.rollback().await;
        let mut successor = Caller::new(&key);
        soon("a takeover", async || {
            let outcome = successor.claim(&shop.store).await.unwrap();
            matches!(outcome, ClaimOutcome::Acquired(_)).then_some(())
        })
        .await;
        successor.attempt = successor.attempt.next();
        let mut second = shop.store.begin().await.unwrap();
        shop.write(&mut second, &key).await;
        let lost = shop.store.complete_in(&mut second, &attempt, &answer).await.unwrap();
        assert_eq!(lost, FinishOutcome::Lost);
        second.rollback().await;
        assert!(matches!(guard.joined(Otherwise::Release(Release::Failed)).await, Joined::Lost));
        let record = shop.store.lookup(&key).await.unwrap().unwrap();
        assert!(matches!(record.state, State::InProgress { .. }), "{record:?}");
        assert_eq!((record.token, shop.effects().await), (successor.token, 0));
    });
}

/// C62, and kind of fault: a renewal that commits after the snapshot makes the completion fail with 40001.
/// Work that begins its transaction while its heartbeat beats tries again, and then nothing is in its way.
#[test]
fn under_repeatable_read_the_second_transaction_succeeds() {
    runtime().block_on(async {
        let url = with_setting(&server().url(), "default_transaction_isolation", "repeatable read");
        let (shop, key) = (Shop::open(&url).await, key("snapshot"));
        let guard = shop.begin(&key).await;
        let (attempt, answer) = (guard.attempt().clone(), Answer::bytes("charged"));
        let mut transaction = shop.store.begin().await.unwrap();
        shop.write(&mut transaction, &key).await;
        let sequence = async || match shop.store.lookup(&key).await.unwrap().unwrap().state {
            State::InProgress { sequence, .. } => sequence,
            other => panic!("{other:?}"),
        };
        let before = sequence().await;
        soon("a renewal", async || (sequence().await > before).then_some(())).await;
        let failed = shop.store.complete_in(&mut transaction, &attempt, &answer).await;
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Conflict);
        transaction.rollback().await;
        let mut transaction = shop.store.begin().await.unwrap();
        shop.write(&mut transaction, &key).await;
        let done = shop.store.complete_in(&mut transaction, &attempt, &answer).await.unwrap();
        assert_eq!(done, FinishOutcome::Done);
        transaction.commit().await.unwrap();
        let joined = guard.joined(Otherwise::Complete(answer.clone())).await;
        assert!(matches!(joined, Joined::Committed(committed) if committed == answer));
        assert_eq!(shop.effects().await, 1);
    });
}

/// One attempt, two transactions at once: one of them commits.
#[test]
fn one_attempt_commits_once() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open(&server().url()).await, key("twice"));
        let guard = shop.begin(&key).await;
        let attempt = guard.attempt().clone();
        let commit = async |number: u32| {
            let mut transaction = shop.store.begin().await.unwrap();
            shop.write(&mut transaction, &key).await;
            let answer = Answer::bytes(number.to_string());
            match shop.store.complete_in(&mut transaction, &attempt, &answer).await {
                Ok(FinishOutcome::Done) => {
                    transaction.commit().await.unwrap();
                    Some(answer)
                }
                Ok(FinishOutcome::Lost) | Err(_) => {
                    transaction.rollback().await;
                    None
                }
                other => panic!("{other:?}"),
            }
        };
        let committed: Vec<_> = join_all((0..4).map(commit)).await.into_iter().flatten().collect();
        assert_eq!((committed.len(), shop.effects().await), (1, 1));
        assert_eq!(shop.replayed(&key).await, committed[0]);
        let joined = guard.joined(Otherwise::Release(Release::Failed)).await;
        assert!(matches!(joined, Joined::Committed(answer) if answer == committed[0]));
    });
}

#[test]
fn an_attempt_without_a_claim_is_not_completed() {
    runtime().block_on(async {
        let down = builder(&unique_namespace()).timeout(Duration::from_millis(200));
        let down = down.build_lazy("postgres://nobody@127.0.0.1:1/none").unwrap();
        let open = Idempotency::builder(down.connected())
            .on_store_failure(OnStoreFailure::FailOpen)
            .store_timeout(Duration::from_millis(300))
            .store_deadline(Duration::from_millis(300));
        let begun = open.build().unwrap().begin(&key("open"), fingerprint()).await.unwrap();
        let Begun::Acquired(guard) = begun else { panic!("{begun:?}") };
        let store = builder(&unique_namespace()).connect(&server().url()).await.unwrap();
        let mut transaction = store.begin().await.unwrap();
        let answer = Answer::bytes("x");
        let refused = store.complete_in(&mut transaction, guard.attempt(), &answer).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
        transaction.rollback().await;
    });
}
