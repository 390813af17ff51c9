//! Exactly once inside the caller's own transaction.

use std::{sync::Arc, time::Duration};

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    Answer, ClaimOutcome, Classify, CompleteRequest, Disposition, ErrorKind, FinishOutcome,
    Idempotency, IdempotencyKey, IdempotencyStore, Never, Outcome, Recorded, Release, State,
    Takeover,
};
use idempotency_postgres::{
    BegunInTransaction, PostgresStore, TransactionError,
    sqlx::{self, AssertSqlSafe, PgConnection, PgPool},
};
use serde::{Deserialize, Serialize};
use test_servers::postgres::{CommitProxy, Cut};

use crate::support::{
    Caller, builder, count, execute, fingerprint, key, lease, number, raw, runtime, server, soon,
};

/// A ledger beside the records, and who writes into it.
struct Shop {
    store: PostgresStore,
    idempotency: Idempotency,
    ledger: String,
    pool: PgPool,
}

impl Shop {
    async fn open() -> Self {
        Self::at(&server().url()).await
    }

    async fn at(url: &str) -> Self {
        let store = builder(&unique_namespace()).connect(url).await.unwrap();
        let idempotency = Idempotency::new(store.connected());
        let (ledger, pool) = (format!("ledger_{:016x}", fastrand::u64(..)), raw(&server().url()));
        execute(&pool, format!("CREATE TABLE {ledger} (key text NOT NULL)")).await;
        Self { store, idempotency, ledger, pool }
    }

    async fn write(&self, connection: &mut PgConnection, key: &IdempotencyKey) {
        let write = format!("INSERT INTO {} VALUES ($1)", self.ledger);
        sqlx::query(AssertSqlSafe(write)).bind(key.key()).execute(connection).await.unwrap();
    }

    async fn charge(&self, key: &IdempotencyKey) -> Result<Outcome<u32, Never>, TransactionError> {
        let work = async |connection: &mut PgConnection, attempt: idempotency_core::Attempt| {
            self.write(connection, attempt.key()).await;
            Ok(attempt.number().get())
        };
        self.store.run_in_transaction(&self.idempotency, key, fingerprint(), work).await
    }

    async fn fail(&self, key: &IdempotencyKey, how: Disposition) -> Outcome<u32, Refusal> {
        let work = async |connection: &mut PgConnection, attempt: idempotency_core::Attempt| {
            self.write(connection, attempt.key()).await;
            Err::<u32, _>(Refusal(format!("{how:?}")))
        };
        self.store.run_in_transaction(&self.idempotency, key, fingerprint(), work).await.unwrap()
    }

    async fn rows(&self, key: &IdempotencyKey) -> i64 {
        let count = format!("SELECT count(*) FROM {} WHERE key = '{}'", self.ledger, key.key());
        number(&self.pool, count).await
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Refusal(String);

impl Classify for Refusal {
    fn disposition(&self) -> Disposition {
        match self.0.as_str() {
            "Store" => Disposition::Store,
            "Failed" => Disposition::Failed,
            "NotStarted" => Disposition::NotStarted,
            _ => Disposition::Unknown,
        }
    }
}

#[test]
fn what_was_written_and_the_answer_are_committed_together_and_replayed() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open().await, key("order"));
        let first = shop.charge(&key).await.unwrap();
        assert!(matches!(first, Outcome::Executed(Ok(1))), "{first:?}");
        let again = shop.charge(&key).await.unwrap();
        assert!(matches!(again, Outcome::Replayed(Ok(1))), "{again:?}");
        assert_eq!(shop.rows(&key).await, 1);
    });
}

#[test]
fn a_stored_error_is_replayed_without_what_the_work_has_written() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open().await, key("declined"));
        let first = shop.fail(&key, Disposition::Store).await;
        assert!(matches!(&first, Outcome::Executed(Err(_))), "{first:?}");
        let again = shop.fail(&key, Disposition::Store).await;
        assert!(matches!(&again, Outcome::Replayed(Err(Refusal(_)))), "{again:?}");
        assert_eq!(shop.rows(&key).await, 0);
    });
}

#[test]
fn what_failed_is_rolled_back_and_runs_again() {
    runtime().block_on(async {
        let shop = Shop::open().await;
        let cases =
            [(Disposition::Failed, 2), (Disposition::NotStarted, 1), (Disposition::Unknown, 2)];
        for (how, next) in cases {
            let key = key(format!("{how:?}"));
            let failed = shop.fail(&key, how).await;
            assert!(matches!(&failed, Outcome::Executed(Err(_))), "{failed:?}");
            assert_eq!(shop.rows(&key).await, 0);
            let again = shop.charge(&key).await.unwrap();
            assert!(matches!(again, Outcome::Executed(Ok(n)) if n == next), "{how:?} {again:?}");
            assert_eq!(shop.rows(&key).await, 1);
        }
    });
}

/// Kind of fault: the work panics (H-10). What it wrote here is gone; what it did elsewhere is not
/// known.
#[test]
fn a_panic_rolls_back_and_releases_the_key_as_unknown() {
    runtime().block_on(async {
        let (shop, key) = (Arc::new(Shop::open().await), key("panic"));
        let panicking = {
            let (shop, key) = (Arc::clone(&shop), key.clone());
            tokio::spawn(async move {
                let work = async |connection: &mut PgConnection, _| {
                    shop.write(connection, &key).await;
                    assert_ne!(shop.rows(&key).await, 0, "in the middle of the work");
                    Ok::<u32, Never>(1)
                };
                let run =
                    shop.store.run_in_transaction(&shop.idempotency, &key, fingerprint(), work);
                run.await.map(drop)
            })
        };
        assert!(panicking.await.unwrap_err().is_panic());
        let record = shop.store.lookup(&key).await.unwrap().unwrap();
        assert!(format!("{:?}", record.state).contains("Unknown"), "{record:?}");
        assert_eq!(shop.rows(&key).await, 0);
        let again = shop.charge(&key).await.unwrap();
        assert!(matches!(again, Outcome::Executed(Ok(2))), "{again:?}");
    });
}

/// Kind of fault: work outlives its lease and a second one starts. The row lock keeps the claim.
#[test]
fn a_transaction_keeps_its_claim_beyond_the_lease_without_a_heartbeat() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open().await, key("long"));
        let brief = shop
            .idempotency
            .to_builder()
            .lease(lease(200))
            .store_timeout(Duration::from_millis(100));
        let brief = brief.build().unwrap();
        let begun = shop.store.begin_in_transaction(&brief, &key, fingerprint()).await.unwrap();
        let BegunInTransaction::Acquired(mut guard) = begun else { panic!("{begun:?}") };
        shop.write(guard.connection(), &key).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        for takeover in [Takeover::Allow, Takeover::Refuse] {
            let other = Caller { takeover, ..Caller::new(&key) };
            let outcome = other.claim(&shop.store).await.unwrap();
            assert!(matches!(outcome, ClaimOutcome::InProgress(_)), "{outcome:?}");
        }
        let recorded = guard.commit(Answer::bytes("done")).await.unwrap();
        assert!(matches!(recorded, Recorded::Stored), "{recorded:?}");
        let replay = Caller::new(&key).claim(&shop.store).await.unwrap();
        assert!(matches!(replay, ClaimOutcome::Replay(_)), "{replay:?}");
        assert_eq!(shop.rows(&key).await, 1);
    });
}

/// Kind of fault: a stale owner commits beside its successor (H-13 and its like, within a database).
#[test]
fn an_attempt_that_lost_its_claim_cannot_commit() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open().await, key("stale"));
        let stale = Caller { lease: lease(1), ..Caller::new(&key) };
        stale.acquire(&shop.store).await;
        let completion = |attempt: &Caller| CompleteRequest {
            key: &key,
            token: attempt.token,
            attempt: attempt.attempt,
            fingerprint: fingerprint(),
            response: "mine".into(),
            retention: attempt.retention,
        };
        let mut successor = Caller::new(&key);
        soon("a takeover", async || {
            let outcome = successor.claim(&shop.store).await.unwrap();
            matches!(outcome, ClaimOutcome::Acquired(_)).then_some(())
        })
        .await;
        successor.attempt = successor.attempt.next();
        let mut transaction = shop.pool.begin().await.unwrap();
        shop.write(&mut transaction, &key).await;
        let stored =
            shop.store.complete_claim_in(&mut transaction, completion(&stale)).await.unwrap();
        assert_eq!(stored, FinishOutcome::Lost);
        transaction.rollback().await.unwrap();
        // the holder: once, and the plain completion that comes after it finds it done
        let mut transaction = shop.pool.begin().await.unwrap();
        shop.write(&mut transaction, &key).await;
        let own = completion(&successor);
        let stored = shop.store.complete_claim_in(&mut transaction, own.clone()).await.unwrap();
        assert_eq!(stored, FinishOutcome::Done);
        transaction.commit().await.unwrap();
        assert_eq!(shop.store.complete(own.clone()).await.unwrap(), FinishOutcome::Done);
        // and the same work again in another transaction is refused
        let mut transaction = shop.pool.begin().await.unwrap();
        let again = shop.store.complete_claim_in(&mut transaction, own).await.unwrap();
        assert_eq!(again, FinishOutcome::Lost);
        transaction.rollback().await.unwrap();
        assert_eq!(shop.rows(&key).await, 1);
        // nothing of ours stays behind in the caller's session
        let mut transaction = shop.pool.begin().await.unwrap();
        let _ = shop.store.complete_claim_in(&mut transaction, completion(&stale)).await.unwrap();
        let setting = sqlx::query_scalar::<_, String>("SHOW lock_timeout");
        assert_eq!(setting.fetch_one(&mut *transaction).await.unwrap(), "0");
        transaction.rollback().await.unwrap();
    });
}

#[test]
fn work_that_hides_a_failed_statement_is_rolled_back() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open().await, key("hidden"));
        let work = async |connection: &mut PgConnection, _| {
            shop.write(connection, &key).await;
            let _hidden = sqlx::query("SELECT 1 / 0").execute(connection).await;
            Ok::<u32, Never>(1)
        };
        let run = shop.store.run_in_transaction(&shop.idempotency, &key, fingerprint(), work).await;
        assert!(matches!(&run, Err(TransactionError::RolledBack(_))), "{run:?}");
        let again = shop.charge(&key).await.unwrap();
        assert!(matches!(again, Outcome::Executed(Ok(2))), "{again:?}");
        assert_eq!(shop.rows(&key).await, 1);
    });
}

/// Kind of fault: a cancelled BEGIN poisons the pool (H-55), here with everything that follows it.
#[test]
fn dropped_transactions_leave_no_open_session_and_no_rows() {
    runtime().block_on(async {
        let proxy = CommitProxy::start(server().address(), Duration::from_millis(1)).await.unwrap();
        let shop = Shop::at(&format!("{}?application_name=dropped", proxy.url())).await;
        for round in 0..count(60, 600) {
            let key = key(round);
            let patience = Duration::from_micros(fastrand::u64(0..25_000));
            let charged = tokio::time::timeout(patience, shop.charge(&key)).await;
            if let Ok(charged) = charged {
                assert!(matches!(charged, Ok(Outcome::Executed(Ok(1)))), "{charged:?}");
            }
        }
        let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dropped' \
            AND state LIKE 'idle in transaction%'";
        soon("no session in a transaction", async || {
            (number(&shop.pool, open).await == 0).then_some(())
        })
        .await;
        // each row has its answer, and each answer its row
        let ledger = &shop.ledger;
        let split = format!(
            "SELECT count(*) FROM {ledger} l FULL JOIN (SELECT key FROM {table} \
             WHERE state = 3 AND key LIKE '{namespace}/%') r ON r.key = '{namespace}/shop/' || l.key \
             WHERE l.key IS NULL OR r.key IS NULL",
            table = crate::support::TABLE,
            namespace = namespace_of(&shop.store),
        );
        assert_eq!(number(&shop.pool, split).await, 0);
    });
}

/// The store's `Debug` names its namespace, which the test chose at random.
fn namespace_of(store: &PostgresStore) -> String {
    let shown = format!("{store:?}");
    let (_, rest) = shown.split_once("Namespace(").unwrap();
    rest.split_once(')').unwrap().0.to_owned()
}

/// Kinds of fault: an own lost success looks like a failure (H-50), and a commit whose answer was lost
/// is run again. The connection ends right before or right after the commit.
#[test]
fn a_connection_cut_around_the_commit_leads_to_one_row_a_key() {
    runtime().block_on(async {
        let proxy = CommitProxy::start(server().address(), Duration::ZERO).await.unwrap();
        let shop = Shop::at(&proxy.url()).await;
        for round in 0..count(40, 200) {
            let key = key(round);
            let after = round % 2 == 0;
            proxy.cut(if after { Cut::AfterCommit } else { Cut::BeforeCommit });
            let outcome = shop.charge(&key).await;
            assert!(proxy.has_cut(), "no commit was seen");
            if after {
                assert!(matches!(outcome, Ok(Outcome::Executed(Ok(1)))), "{outcome:?}");
                let again = shop.charge(&key).await;
                assert!(matches!(again, Ok(Outcome::Replayed(Ok(1)))), "{again:?}");
            } else {
                assert!(matches!(outcome, Err(TransactionError::RolledBack(_))), "{outcome:?}");
                let again = shop.charge(&key).await;
                assert!(matches!(again, Ok(Outcome::Executed(Ok(2)))), "{again:?}");
            }
            assert_eq!(shop.rows(&key).await, 1, "{key:?}");
        }
    });
}

/// Kind of fault: two callers of one key at once, with business rows.
#[test]
fn of_many_transactions_at_once_one_commits() {
    runtime().block_on(async {
        let (shop, key) = (Shop::open().await, key("crowd"));
        let all = futures_util::future::join_all((0..20).map(|_| shop.charge(&key))).await;
        let executed = all.iter().filter(|outcome| matches!(outcome, Ok(Outcome::Executed(_))));
        assert_eq!(executed.count(), 1, "{all:?}");
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        assert_eq!(shop.rows(&key).await, 1);
    });
}

#[test]
fn a_transaction_does_not_run_without_the_store() {
    runtime().block_on(async {
        let store = builder(&unique_namespace()).timeout(Duration::from_millis(200));
        let store = store.build_lazy("postgres://nobody@127.0.0.1:1/none").unwrap();
        let idempotency = Idempotency::new(store.connected());
        let open = idempotency
            .to_builder()
            .on_store_failure(idempotency_core::OnStoreFailure::FailOpen)
            .store_timeout(Duration::from_millis(300))
            .store_deadline(Duration::from_millis(300));
        let (open, key) = (open.build().unwrap(), key("down"));
        let begun = store.begin_in_transaction(&open, &key, fingerprint()).await;
        assert!(matches!(&begun, Err(TransactionError::Unprotected)), "{begun:?}");
        let closed = store.begin_in_transaction(&idempotency, &key, fingerprint()).await;
        let Err(TransactionError::Claim(idempotency_core::Error::Store(error))) = closed else {
            panic!("{closed:?}")
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    });
}

/// Both doors give futures that a multi-threaded runtime takes.
#[test]
fn the_futures_are_send() {
    const fn is_send<T: Send>(value: T) -> T {
        value
    }
    runtime().block_on(async {
        let (shop, key) = (Shop::open().await, key("send"));
        let begun = shop.store.begin_in_transaction(&shop.idempotency, &key, fingerprint());
        let begun = is_send(begun).await.unwrap();
        let BegunInTransaction::Acquired(guard) = begun else { panic!("{begun:?}") };
        is_send(guard.roll_back(Release::NotStarted)).await;
        assert!(shop.store.lookup(&key).await.unwrap().is_none());
        is_send(shop.charge(&key)).await.map(drop).unwrap();
        let record = shop.store.lookup(&key).await.unwrap().unwrap();
        assert!(matches!(record.state, State::Completed { .. }), "{record:?}");
    });
}
