use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use idempotency_core::{
    Answer, AttemptNumber, Begun, EventKind, Idempotency, Outcome, Question, Recovery, Release,
    Verdict,
};

use crate::support::*;

/// Answers from a list, remembers what it was asked about, and may do something first.
#[derive(Clone)]
struct Script {
    verdicts: Arc<Mutex<Vec<Verdict>>>,
    asked: Arc<Mutex<Vec<u32>>>,
    meanwhile: Arc<Mutex<Option<Idempotency>>>,
}

impl Script {
    fn new(verdicts: &[Verdict]) -> Self {
        let verdicts = verdicts.iter().rev().cloned().collect();
        let verdicts = Arc::new(Mutex::new(verdicts));
        Self { verdicts, asked: Arc::default(), meanwhile: Arc::default() }
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

#[async_trait]
impl Recovery for Script {
    async fn recover(&self, question: Question<'_>) -> Verdict {
        assert_eq!((question.key, question.fingerprint), (&key("k"), request("body")));
        self.asked.lock().unwrap().push(question.abandoned.attempt.get());
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(other) = meanwhile {
            abandon(&other).await;
        }
        self.verdicts.lock().unwrap().pop().expect("asked too often")
    }
}

/// Begins an attempt under `k` and lets its owner die.
async fn abandon(idempotency: &Idempotency) {
    let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("body")).await.unwrap()
    else {
        panic!("not acquired")
    };
    guard.attempt().save_checkpoint("step 1").await.unwrap();
    drop(guard);
    tokio::time::sleep(ms(3_010)).await;
}

fn happened(value: u32) -> Verdict {
    Verdict::Happened(
        Answer::value::<u32, Refused>(&Ok(value), idempotency_core::Codec::default()).unwrap(),
    )
}

/// C08: where takeover is refused and nobody can tell, nothing runs and nothing changes.
#[tokio::test(start_paused = true)]
async fn refused_takeover_leaves_an_abandoned_key_as_it_is() {
    let store = store();
    let idempotency = builder(store.clone()).refuse_takeover().build().unwrap();
    abandon(&idempotency).await;
    let before = store.records().raw();
    let Outcome::Unknown(abandoned) = run_ok(&idempotency, "k").await else { panic!("it ran") };
    assert_eq!(abandoned.attempt, AttemptNumber::FIRST);
    assert_eq!(abandoned.checkpoint.unwrap(), "step 1");
    assert!(abandoned.since >= ms(9), "{:?}", abandoned.since);
    assert_eq!(store.records().raw(), before);
    // a known failure is taken over from all the same (C07)
    let failing = async |_| Err::<u32, _>(Refused::Passing);
    let _failed = idempotency.run(&key("failed"), request("body"), failing).await.unwrap();
    assert!(matches!(run_ok(&idempotency, "failed").await, Outcome::Executed(Ok(2))));
    // and one that may have happened is not
    let perhaps = async |_| Err::<u32, _>(Refused::Perhaps);
    let _perhaps = idempotency.run(&key("perhaps"), request("body"), perhaps).await.unwrap();
    assert!(matches!(run_ok(&idempotency, "perhaps").await, Outcome::Unknown(_)));
}

#[tokio::test(start_paused = true)]
async fn verdicts_are_acted_upon() {
    for (verdict, expected) in [
        (happened(7), "replayed"),
        (Verdict::NotHappened, "executed"),
        (Verdict::Unknown, "unknown"),
    ] {
        let (store, events) = (store(), Events::default());
        let script = Script::new(&[verdict]);
        let idempotency =
            builder(store).recovery(script.clone()).observer(events.clone()).build().unwrap();
        abandon(&idempotency).await;
        match (run_ok(&idempotency, "k").await, expected) {
            (Outcome::Replayed(Ok(7)), "replayed") => {
                // stored: the next retry does not ask again
                assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Replayed(Ok(7))));
                assert_eq!(events.count(EventKind::Recovered), 1);
            }
            (Outcome::Executed(Ok(2)), "executed") | (Outcome::Unknown(_), "unknown") => {}
            (other, _) => panic!("{expected}: {other:?}"),
        }
        assert_eq!(*script.asked.lock().unwrap(), [1]);
    }
}

/// C63: a verdict counts for the attempt it was given about. When another attempt came in between,
/// the hook is asked about that one, while the key is held.
#[tokio::test(start_paused = true)]
async fn a_verdict_about_an_earlier_attempt_does_not_count() {
    for (second, expected) in [
        (happened(9), "replayed"),
        (Verdict::NotHappened, "executed"),
        (Verdict::Unknown, "unknown"),
    ] {
        let store = store();
        let script = Script::new(&[Verdict::NotHappened, second]);
        let idempotency = builder(store.clone()).recovery(script.clone()).build().unwrap();
        abandon(&idempotency).await;
        // while the hook thinks about attempt 1, another process takes over and dies too
        *script.meanwhile.lock().unwrap() = Some(executor(store));
        match (run_ok(&idempotency, "k").await, expected) {
            (Outcome::Replayed(Ok(9)), "replayed")
            | (Outcome::Executed(Ok(3)), "executed")
            | (Outcome::Unknown(_), "unknown") => {}
            (other, _) => panic!("{expected}: {other:?}"),
        }
        assert_eq!(*script.asked.lock().unwrap(), [1, 2]);
    }
}

/// An answer that came while the hook was thinking wins over its verdict.
#[tokio::test(start_paused = true)]
async fn an_answer_that_came_meanwhile_wins_over_the_verdict() {
    let store = store();
    let faulty = Faulty::new(store.clone(), |_| Plan::Deliver);
    let late_owner = executor(store.clone());
    let Begun::Acquired(guard) = late_owner.begin(&key("k"), request("body")).await.unwrap() else {
        panic!("not acquired")
    };
    let attempt = guard.attempt().clone();
    let _unknown = guard.release(Release::Unknown).await.unwrap();
    let slow = SlowHook(Arc::new(tokio::sync::Notify::new()));
    let idempotency = builder(faulty).recovery(slow.clone()).build().unwrap();
    let run = tokio::spawn(async move { run_ok(&idempotency, "k").await });
    tokio::time::sleep(ms(10)).await;
    // the owner's completion, sent before its release, arrives only now (C13)
    let record = idempotency_core::IdempotencyStore::lookup(&store, &key("k")).await.unwrap();
    let complete = idempotency_core::CompleteRequest {
        key: &key("k"),
        token: record.unwrap().token,
        attempt: attempt.number(),
        fingerprint: request("body"),
        response: Answer::value::<u32, Refused>(&Ok(5), idempotency_core::Codec::default())
            .unwrap()
            .as_stored()
            .clone(),
        retention: retention(60_000),
    };
    let _done = idempotency_core::IdempotencyStore::complete(&store, complete).await.unwrap();
    slow.0.notify_one();
    assert!(matches!(run.await.unwrap(), Outcome::Replayed(Ok(5))));
}

#[derive(Clone, Debug)]
struct SlowHook(Arc<tokio::sync::Notify>);

#[async_trait]
impl Recovery for SlowHook {
    async fn recover(&self, _: Question<'_>) -> Verdict {
        self.0.notified().await;
        Verdict::NotHappened
    }
}
