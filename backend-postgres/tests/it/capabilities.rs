//! Schema, doctor, waiters, the operator's list, and a pooler.

use std::{collections::HashSet, time::Duration};

use futures_util::future::{join_all, try_join_all};
use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Doctor, ErrorKind, Finding, FinishOutcome, Idempotency, IdempotencyStore,
    ListQuery, ListState, Never, OnDuplicate, Outcome, Release, ReleaseOutcome, Schema, Scope,
    Severity, StoreAdmin, Watch,
};
use idempotency_postgres::PostgresStore;

use crate::support::{
    Caller, bouncer, builder, execute, fingerprint, fresh, key, number, raw, runtime, server,
};

/// Kind of fault: several processes set up at once and one of them fails. And names that need quotes.
#[test]
fn the_schema_is_set_up_by_many_at_once_and_again() {
    runtime().block_on(async {
        let (schema, table) = ("Strange \"schema\"", "it's a\\table; DROP TABLE x");
        let stores: Vec<PostgresStore> = (0..6)
            .map(|_| {
                let store = builder(&unique_namespace()).schema(schema).unwrap();
                store.table(table).unwrap().build_lazy(&server().url()).unwrap()
            })
            .collect();
        try_join_all(stores.iter().map(Schema::create)).await.unwrap();
        let store = &stores[0];
        let caller = Caller::new(&key("quoted"));
        caller.acquire(store).await;
        assert_eq!(caller.complete(store, "answer").await.unwrap(), FinishOutcome::Done);
        let pool = raw(&server().url());
        let version =
            "SELECT sum(xmin::text::bigint)::bigint FROM pg_proc WHERE proname LIKE 'it''s%'";
        let before = number(&pool, version).await;
        store.create().await.unwrap();
        assert_eq!(number(&pool, version).await, before, "nothing to change, and it was changed");
        assert!(store.lookup(&caller.key).await.unwrap().is_some());
        assert!(
            store.describe().contains("CREATE TABLE IF NOT EXISTS \"Strange \"\"schema\"\"\".")
        );
    });
}

#[test]
fn a_table_that_is_missing_is_named_when_connecting() {
    runtime().block_on(async {
        let store = builder(&unique_namespace()).table("not_there").unwrap();
        let error = store.connect(&server().url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("not_there"), "{error}");
        let wrong = PostgresStore::connect("postgres://secret:hush@[").await.unwrap_err();
        let shown = format!("{wrong} {wrong:?}");
        assert!(!shown.contains("hush"), "{shown}");
    });
}

fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap()
}

#[test]
fn the_doctor_tells_sound_from_unsound() {
    runtime().block_on(async {
        let findings = fresh(&server().url()).await.examine().await.unwrap();
        // the tests' server is not synchronous to its disk
        let hazards: Vec<_> = findings.iter().filter(|f| f.severity == Severity::Hazard).collect();
        assert!(hazards.iter().all(|f| f.subject == "fsync is off"), "{findings:?}");
        assert!(findings.iter().any(|f| f.subject == "notifications arrive"), "{findings:?}");
        let unlogged = builder(&unique_namespace()).table("unlogged").unwrap();
        let unlogged = unlogged.build_lazy(&server().url()).unwrap();
        let missing = unlogged.examine().await.unwrap();
        assert!(missing.iter().any(|f| f.subject == "the table is missing"), "{missing:?}");
        unlogged.create().await.unwrap();
        execute(unlogged.pool(), "ALTER TABLE unlogged SET UNLOGGED").await;
        let findings = unlogged.examine().await.unwrap();
        assert_eq!(worst(&findings), Severity::Hazard);
        assert!(findings.iter().any(|f| f.subject == "the table is unlogged"), "{findings:?}");
        let others = "the functions are not those of this release";
        assert!(findings.iter().all(|f| f.subject != others), "{findings:?}");
        for change in [
            "ALTER FUNCTION unlogged_claim_many_v1 RESET plan_cache_mode",
            "CREATE OR REPLACE FUNCTION unlogged_sweep_v1(\
                batch bigint, OUT removed bigint, OUT abandoned bigint, OUT more boolean) \
             LANGUAGE sql SET enable_seqscan = off AS 'SELECT 0, 0, false'",
        ] {
            execute(unlogged.pool(), change).await;
            let findings = unlogged.examine().await.unwrap();
            assert!(findings.iter().any(|f| f.subject == others), "{change}: {findings:?}");
            unlogged.create().await.unwrap();
            let findings = unlogged.examine().await.unwrap();
            assert!(findings.iter().all(|f| f.subject != others), "{change}: {findings:?}");
        }
    });
}

/// Kind of fault: a pooler gives each statement to another session, and prepared ones get lost.
#[test]
fn an_old_pooler_is_found_by_the_doctor_and_named_by_the_errors() {
    runtime().block_on(async {
        let store = builder(&unique_namespace()).build_lazy(&bouncer().url()).unwrap();
        let findings = store.examine().await.unwrap();
        let first = findings.first().unwrap();
        assert_eq!(first.severity, Severity::Hazard, "{findings:?}");
        let found = findings.iter().find(|f| f.subject.starts_with("prepared statements do not"));
        assert!(found.unwrap().advice.contains("1.21"), "{findings:?}");
        let callers: Vec<_> = (0..40).map(|n| Caller::new(&key(n))).collect();
        let claims = join_all(callers.iter().map(|caller| caller.claim(&store))).await;
        for error in claims.into_iter().filter_map(Result::err) {
            assert_ne!(error.kind(), ErrorKind::Unexpected, "{error}");
        }
    });
}

/// Kind of fault: waiters who only poll. Told across two stores, and only because somebody waits.
#[test]
fn a_waiter_of_another_process_is_told_and_nobody_is_told_otherwise() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let (here, there) = (
            builder(&namespace).connect(&server().url()).await.unwrap(),
            builder(&namespace).connect(&server().url()).await.unwrap(),
        );
        let owner = Caller::new(&key("awaited"));
        owner.acquire(&here).await;
        let before = here.lookup(&owner.key).await.unwrap();
        let mut watching = there.watch(&owner.key).await.unwrap();
        assert_eq!(here.lookup(&owner.key).await.unwrap(), before);
        let none = tokio::time::timeout(Duration::from_millis(100), watching.changed()).await;
        assert!(none.is_err(), "told of nothing");
        assert_eq!(owner.complete(&here, "answer").await.unwrap(), FinishOutcome::Done);
        let told = tokio::time::timeout(Duration::from_secs(5), watching.changed()).await;
        told.expect("told").unwrap();
        let marks = "SELECT count(*) FROM idempotency_keys WHERE waited AND key LIKE ";
        let pool = raw(&server().url());
        let mine = format!("{marks}'{}/%'", namespace.name());
        assert_eq!(number(&pool, mine).await, 1);
    });
}

#[test]
fn an_executor_that_waits_gets_the_answer_of_another_process() {
    runtime().block_on(async {
        let namespace = unique_namespace();
        let owner_store = builder(&namespace).connect(&server().url()).await.unwrap();
        let owner = Caller::new(&key("shared"));
        owner.acquire(&owner_store).await;
        let store = builder(&namespace).connect(&server().url()).await.unwrap();
        let waiting = Idempotency::builder(store.connected());
        let waiting = waiting.on_duplicate(OnDuplicate::Wait { timeout: Duration::from_secs(20) });
        let waiting = waiting.build().unwrap();
        let waits = waiting.run(&owner.key, fingerprint(), async |_| Ok::<_, Never>(0_u32));
        let finishes = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let answer = idempotency_core::Answer::value(
                &Ok::<_, Never>(7_u32),
                idempotency_core::Codec::Json,
            );
            let response = answer.unwrap().as_stored().clone();
            owner.complete(&owner_store, response).await.unwrap()
        };
        let (waited, done) = futures_util::future::join(waits, finishes).await;
        assert_eq!(done, FinishOutcome::Done);
        assert!(matches!(waited, Ok(Outcome::Replayed(Ok(7)))), "{waited:?}");
    });
}

#[test]
fn the_list_gives_every_record_once_by_page_scope_and_state() {
    runtime().block_on(async {
        let store = fresh(&server().url()).await;
        for n in 0..25 {
            let scope = if n % 5 == 0 { "a" } else { "b" };
            let key = idempotency_core::IdempotencyKey::new(scope, format!("{n}")).unwrap();
            let caller = Caller::new(&key);
            caller.acquire(&store).await;
            if n % 2 == 0 {
                assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
            } else if n % 3 == 0 {
                let released = caller.release(&store, Release::Unknown).await.unwrap();
                assert_eq!(released, ReleaseOutcome::Released);
            }
        }
        let all = async |query: ListQuery| {
            let (mut found, mut page) = (Vec::new(), None);
            loop {
                let listed =
                    store.list(ListQuery { page, limit: 4, ..query.clone() }).await.unwrap();
                found.extend(listed.records.into_iter().map(|record| record.key.unwrap()));
                page = listed.next;
                if page.is_none() {
                    return found;
                }
            }
        };
        let every = all(ListQuery::default()).await;
        assert_eq!(every.len(), 25);
        assert_eq!(every.iter().collect::<HashSet<_>>().len(), 25);
        let scope = Some(Scope::new("a").unwrap());
        assert_eq!(all(ListQuery { scope, ..ListQuery::default() }).await.len(), 5);
        let of = |state| ListQuery { state: Some(state), ..ListQuery::default() };
        assert_eq!(all(of(ListState::Completed)).await.len(), 13);
        assert_eq!(all(of(ListState::Abandoned)).await.len(), 4);
        let old = ListQuery { older_than: Some(Duration::from_hours(1)), ..ListQuery::default() };
        assert!(all(old).await.is_empty());
        let foreign = ListQuery { page: Some("elsewhere/x".to_owned()), ..ListQuery::default() };
        assert_eq!(store.list(foreign).await.unwrap_err().kind(), ErrorKind::Invalid);
    });
}

/// Kind of fault: secrets in logs.
#[test]
fn debug_shows_neither_keys_nor_the_connection() {
    runtime().block_on(async {
        let url = "postgres://user:hush@127.0.0.1:1/none";
        let store = builder(&unique_namespace()).build_lazy(url).unwrap();
        let error = Caller::new(&key("private")).claim(&store).await.unwrap_err();
        let shown = format!("{store:?} {error} {error:?}");
        assert!(!shown.contains("hush") && !shown.contains("private"), "{shown}");
        assert!(matches!(
            Caller::new(&key("x")).claim(&store).await.map(|outcome| matches!(outcome, ClaimOutcome::Acquired(_))),
            Err(error) if error.is_transient()
        ));
    });
}
