use idempotency_core::{
    Answer, AnswerBody, AttemptNumber, Begun, Connected, Error, EventKind, FinishOutcome,
    IdempotencyStore, Mismatch, NotKeptReason, Operation, Recorded, Release, ReleaseOutcome,
    Settle,
};

use crate::support::*;

/// The second door: bytes of the caller's own, byte for byte (kind of fault: lossy text, H-38).
#[tokio::test(start_paused = true)]
async fn a_guard_stores_bytes_and_begin_gives_them_back() {
    let idempotency = executor(store());
    let all: Vec<u8> = (0..=255).collect();
    let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("b")).await.unwrap() else {
        panic!("not acquired")
    };
    assert_eq!(guard.attempt().number(), AttemptNumber::FIRST);
    assert!(guard.attempt().is_protected());
    let running = idempotency.begin(&key("k"), request("b")).await.unwrap();
    assert!(matches!(running, Begun::InProgress(_)));
    assert!(matches!(guard.complete(Answer::bytes(&all)).await, Recorded::Stored));
    tokio::time::sleep(ms(7)).await;
    let Begun::Replayed(replayed) = idempotency.begin(&key("k"), request("b")).await.unwrap()
    else {
        panic!("not replayed")
    };
    assert_eq!(replayed.answer.body(), AnswerBody::Bytes(all.into()));
    assert_eq!((replayed.age, replayed.attempt), (ms(7), AttemptNumber::FIRST));
    assert_eq!(replayed.retention_remaining, ms(3_600_000 - 7));
    let other = idempotency.begin(&key("k"), request("other")).await.unwrap();
    assert!(matches!(other, Begun::Mismatch(Mismatch { stored_version: 1 })));
}

/// Kind of fault: one retention for all answers (H-17). An answer may have its own, and never less than the
/// lease: a retry may come as late as that.
#[tokio::test(start_paused = true)]
async fn an_answer_may_be_kept_for_another_time_than_the_executors() {
    let idempotency = executor(store());
    for (name, asked, kept) in [("long", 7_200_000, 7_200_000), ("short", 1, 3_000)] {
        let begun = idempotency.begin(&key(name), request("b")).await.unwrap();
        let Begun::Acquired(guard) = begun else { panic!("not acquired") };
        let guard = guard.with_retention(retention(asked));
        assert_eq!(guard.retention(), Some(retention(kept)));
        assert!(matches!(guard.complete(Answer::bytes("a")).await, Recorded::Stored));
        let begun = idempotency.begin(&key(name), request("b")).await.unwrap();
        let Begun::Replayed(replayed) = begun else { panic!("not replayed") };
        assert_eq!(replayed.retention_remaining, ms(kept), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn not_started_frees_a_first_attempt_and_no_later_one() {
    let idempotency = executor(store());
    for (release, next) in
        [(Release::NotStarted, 1), (Release::Failed, 2), (Release::NotStarted, 4)]
    {
        let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("b")).await.unwrap()
        else {
            panic!("not acquired")
        };
        assert_eq!(guard.release(release).await.unwrap(), ReleaseOutcome::Released);
        let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("b")).await.unwrap()
        else {
            panic!("not acquired")
        };
        assert_eq!(guard.attempt().number().get(), next, "after {release:?}");
        let _told = guard.release(Release::NotStarted).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_says_why_the_answer_was_not_kept() {
    let idempotency = executor(store());
    let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("b")).await.unwrap() else {
        panic!("not acquired")
    };
    let tombstone = Answer::not_kept(NotKeptReason::Stream);
    assert!(matches!(guard.complete(tombstone).await, Recorded::NotKept));
    let Begun::Replayed(replayed) = idempotency.begin(&key("k"), request("b")).await.unwrap()
    else {
        panic!("not replayed")
    };
    assert_eq!(replayed.answer.body(), AnswerBody::NotKept(NotKeptReason::Stream));
}

/// C62: the heartbeat has ended before the completion is sent, also when a renewal is in flight.
#[tokio::test(start_paused = true)]
async fn no_renewal_is_sent_during_or_after_a_completion() {
    let plan = |operation| match operation {
        Operation::Renew => Plan::Delay(ms(500)),
        Operation::Complete => Plan::SlowReply(ms(700)),
        _ => Plan::Deliver,
    };
    let faulty = Faulty::new(store(), plan);
    let idempotency = executor(faulty.clone());
    let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("b")).await.unwrap() else {
        panic!("not acquired")
    };
    tokio::time::sleep(ms(1_200)).await;
    assert_eq!(faulty.calls(Operation::Renew), 1, "a renewal is in flight");
    let started = tokio::time::Instant::now();
    assert!(matches!(guard.complete(Answer::bytes("x")).await, Recorded::Stored));
    assert_eq!(started.elapsed(), ms(300 + 700), "the renewal ended first");
    tokio::time::sleep(ms(5_000)).await;
    assert_eq!(faulty.calls(Operation::Renew), 1);
}

/// C11, C14: completing is safe to repeat through the store itself.
#[tokio::test(start_paused = true)]
async fn the_first_answer_stays() {
    let store = store();
    let idempotency = executor(store.clone());
    let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("b")).await.unwrap() else {
        panic!("not acquired")
    };
    let record = store.lookup(&key("k")).await.unwrap().unwrap();
    assert!(matches!(guard.complete(Answer::bytes("first")).await, Recorded::Stored));
    let again = idempotency_core::CompleteRequest {
        key: &key("k"),
        token: record.token,
        attempt: record.attempt,
        fingerprint: record.fingerprint,
        response: Answer::bytes("second").as_stored().clone(),
        retention: record.retention,
    };
    assert_eq!(store.complete(again).await.unwrap(), FinishOutcome::Done);
    let Begun::Replayed(replayed) = idempotency.begin(&key("k"), request("b")).await.unwrap()
    else {
        panic!("not replayed")
    };
    assert_eq!(replayed.answer, Answer::bytes("first"));
}

/// Settling needs a store with operator's verbs; without them it says so.
#[tokio::test(start_paused = true)]
async fn settling_without_operators_verbs_is_an_error() {
    let store = store();
    let idempotency = idempotency_core::Idempotency::new(Connected::from(store.clone()));
    drop(idempotency.begin(&key("k"), request("b")).await.unwrap());
    let record = store.lookup(&key("k")).await.unwrap().unwrap();
    let error = idempotency.settle(&key("k"), (&record).into(), Settle::Failed).await;
    assert!(matches!(error, Err(Error::NoAdmin)));
}

/// The events of a key's life carry what metrics need: attempts and the time since the first one.
#[tokio::test(start_paused = true)]
async fn events_tell_attempt_and_time_since_the_first() {
    let events = Events::default();
    let idempotency = builder(store()).observer(events.clone()).build().unwrap();
    let failing = async |_| Err::<u32, _>(Refused::Passing);
    let _first = idempotency.run(&key("k"), request("body"), failing).await.unwrap();
    tokio::time::sleep(ms(1_000)).await;
    let _second = run_ok(&idempotency, "k").await;
    tokio::time::sleep(ms(1_000)).await;
    let _third = run_ok(&idempotency, "k").await;
    let told: Vec<_> = events
        .all()
        .iter()
        .map(|e| (e.kind, e.attempt.map(AttemptNumber::get), e.first_attempt_ago))
        .collect();
    assert_eq!(
        told,
        [
            (EventKind::Acquired, Some(1), Some(ms(0))),
            (EventKind::Released(Release::Failed), Some(1), Some(ms(0))),
            (EventKind::TakenOver, Some(2), Some(ms(1_000))),
            (EventKind::Completed, Some(2), Some(ms(1_000))),
            (EventKind::Replayed, Some(2), Some(ms(2_000))),
        ]
    );
    assert!(events.all().iter().all(|e| e.key == key("k").digest()));
}

/// Kind of fault: dead-lock (H-63). A renewal in flight in a runtime that nobody drives any more is not
/// waited for longer than it may take.
#[test]
fn a_completion_does_not_wait_for_a_runtime_that_stands_still() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (idle, driven) = (runtime(), runtime());
    let faulty = Faulty::for_operation(store(), Operation::Renew, vec![Plan::Hang; 99]);
    let idempotency = builder(faulty.clone()).lease(lease(900)).build().unwrap();
    let guard = idle.block_on(async {
        let begun = idempotency.begin(&key("k"), request("body")).await.unwrap();
        let Begun::Acquired(guard) = begun else { panic!("not acquired") };
        eventually("it renews", || async { faulty.calls(Operation::Renew) == 1 }).await;
        guard
    });
    driven.block_on(async {
        let recorded = tokio::time::timeout(ms(5_000), guard.complete(Answer::bytes("x"))).await;
        assert!(matches!(recorded, Ok(Recorded::Stored)), "{recorded:?}");
    });
}
