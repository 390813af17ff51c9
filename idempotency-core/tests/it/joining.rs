//! Work that joins its attempt to a transaction of its own. A completion past the executor stands for the
//! commit.

use idempotency_core::{
    Answer, AnswerBody, Attempt, Begun, CheckpointError, ClaimGuard, Classify, Codec, Disposition,
    Error, EventKind, FinishOutcome, Idempotency, IdempotencyStore, Joined, NotKeptReason,
    OnStoreFailure, Operation, Otherwise, Outcome, Recorded, Release, ReleaseReason, State,
};
use serde::{Deserialize, Serialize};

use crate::support::*;

async fn begin(idempotency: &Idempotency) -> ClaimGuard {
    match idempotency.begin(&key("k"), request("b")).await.unwrap() {
        Begun::Acquired(guard) => guard,
        other => panic!("{other:?}"),
    }
}

async fn replayed(idempotency: &Idempotency) -> Answer {
    match idempotency.begin(&key("k"), request("b")).await.unwrap() {
        Begun::Replayed(replayed) => replayed.answer,
        other => panic!("{other:?}"),
    }
}

/// Kinds of fault: an own lost success looks like a failure (H-50). Whatever the work says of it, what
/// was committed is what everybody gets.
#[tokio::test(start_paused = true)]
async fn a_committed_answer_is_the_answer_whatever_the_work_says() {
    let sayings = [
        Otherwise::Complete(Answer::bytes("joined")),
        Otherwise::Complete(Answer::bytes("other")),
        Otherwise::Release(Release::Failed),
        Otherwise::Release(Release::NotStarted),
    ];
    for saying in sayings {
        let (store, events) = (store(), Events::default());
        let idempotency = builder(store.clone()).observer(events.clone()).build().unwrap();
        let guard = begin(&idempotency).await;
        assert!(guard.attempt().joined_answer().is_none());
        let attempt = guard.attempt().clone();
        let request = attempt.completion(&Answer::bytes("joined")).await.unwrap();
        assert_eq!(store.complete(request).await.unwrap(), FinishOutcome::Done);
        assert_eq!(attempt.joined_answer(), Some(Answer::bytes("joined")));
        let joined = guard.joined(saying).await;
        assert!(
            matches!(&joined, Joined::Committed(a) if *a == Answer::bytes("joined")),
            "{joined:?}"
        );
        assert_eq!(replayed(&idempotency).await, Answer::bytes("joined"));
        assert_eq!(events.count(EventKind::Completed), 1);
        assert_eq!(events.count(EventKind::Dropped), 0);
    }
}

/// C11: who does not ask what became of it finds the first answer.
#[tokio::test(start_paused = true)]
async fn a_plain_completion_after_the_commit_changes_nothing() {
    let store = store();
    let idempotency = executor(store.clone());
    let guard = begin(&idempotency).await;
    let attempt = guard.attempt().clone();
    let request = attempt.completion(&Answer::bytes("joined")).await.unwrap();
    assert_eq!(store.complete(request).await.unwrap(), FinishOutcome::Done);
    assert!(matches!(guard.complete(Answer::bytes("other")).await, Recorded::Stored));
    assert_eq!(replayed(&idempotency).await, Answer::bytes("joined"));
}

/// Kind of fault: success without its effect. An answer that speaks of rows that are not there is never
/// stored; any other is treated as ever.
#[tokio::test(start_paused = true)]
async fn what_was_not_committed_is_not_stored() {
    let idempotency = executor(store());
    let guard = begin(&idempotency).await;
    let answer = Answer::bytes("joined");
    assert!(guard.attempt().completion(&answer).await.is_some());
    let joined = guard.joined(Otherwise::Complete(answer)).await;
    assert!(matches!(joined, Joined::Released(Release::Unknown)), "{joined:?}");
    let record = idempotency.connected().store().lookup(&key("k")).await.unwrap().unwrap();
    let State::Released { reason, .. } = record.state else { panic!("{record:?}") };
    assert_eq!(reason, ReleaseReason::Unknown);

    let guard = begin(&idempotency).await;
    assert_eq!(guard.attempt().number().get(), 2);
    assert!(guard.attempt().completion(&Answer::bytes("joined")).await.is_some());
    let joined = guard.joined(Otherwise::Release(Release::Failed)).await;
    assert!(matches!(joined, Joined::Released(Release::Failed)), "{joined:?}");

    let guard = begin(&idempotency).await;
    assert!(guard.attempt().completion(&Answer::bytes("joined")).await.is_some());
    let joined = guard.joined(Otherwise::Complete(Answer::bytes("declined"))).await;
    assert!(matches!(joined, Joined::Completed(Recorded::Stored)), "{joined:?}");
    assert_eq!(replayed(&idempotency).await, Answer::bytes("declined"));
}

/// Kind of fault: a stale owner speaks for its successor (H-06).
#[tokio::test(start_paused = true)]
async fn who_lost_the_key_is_told_so() {
    for saying in [Otherwise::Release(Release::Failed), Otherwise::Complete(Answer::bytes("other"))]
    {
        let idempotency = executor(store());
        let stale = begin(&idempotency).await;
        assert!(stale.attempt().completion(&Answer::bytes("stale")).await.is_some());
        tokio::time::sleep(ms(3_100)).await;
        let successor = begin(&idempotency).await;
        let joined = stale.joined(saying).await;
        assert!(matches!(joined, Joined::Lost), "{joined:?}");
        assert!(matches!(successor.complete(Answer::bytes("new")).await, Recorded::Stored));
        assert_eq!(replayed(&idempotency).await, Answer::bytes("new"));
    }
}

/// A transaction that is open still when its fate is asked for, and commits before the key is given back
/// or completed.
#[tokio::test(start_paused = true)]
async fn a_commit_between_two_looks_is_found() {
    for (operation, saying) in [
        (Operation::Release, Otherwise::Release(Release::Failed)),
        (Operation::Complete, Otherwise::Complete(Answer::bytes("other"))),
    ] {
        let store = store();
        let faulty = Faulty::for_operation(store.clone(), operation, vec![Plan::Delay(ms(200))]);
        let idempotency = executor(faulty);
        let guard = begin(&idempotency).await;
        let attempt = guard.attempt().clone();
        let committing = async {
            let request = attempt.completion(&Answer::bytes("joined")).await.unwrap();
            tokio::time::sleep(ms(100)).await;
            assert_eq!(store.complete(request).await.unwrap(), FinishOutcome::Done);
        };
        let (joined, ()) = futures_util::future::join(guard.joined(saying), committing).await;
        assert!(
            matches!(&joined, Joined::Committed(a) if *a == Answer::bytes("joined")),
            "{joined:?}"
        );
    }
}

/// A store that does not say what became of it is not believed to have lost it.
#[tokio::test(start_paused = true)]
async fn without_the_store_the_fate_is_unknown() {
    let faulty = Faulty::for_operation(store(), Operation::Lookup, vec![Plan::LoseRequest; 999]);
    let events = Events::default();
    let idempotency = builder(faulty.clone()).observer(events.clone()).build().unwrap();
    let guard = begin(&idempotency).await;
    assert!(guard.attempt().completion(&Answer::bytes("joined")).await.is_some());
    let joined = guard.joined(Otherwise::Release(Release::Failed)).await;
    assert!(matches!(joined, Joined::Unknown(_)), "{joined:?}");
    assert_eq!(faulty.calls(Operation::Release), 0, "nothing is given back");
    assert_eq!(events.count(EventKind::Unrecorded), 1);
}

/// C62: the heartbeat has ended before the work completes, also when a renewal is in flight and when the
/// first wait for it was dropped.
#[tokio::test(start_paused = true)]
async fn no_renewal_is_in_flight_when_the_work_completes() {
    for is_dropped in [false, true] {
        let plan = |operation| match operation {
            Operation::Renew => Plan::Delay(ms(500)),
            _ => Plan::Deliver,
        };
        let faulty = Faulty::new(store(), plan);
        let idempotency = executor(faulty.clone());
        let guard = begin(&idempotency).await;
        let (attempt, answer) = (guard.attempt().clone(), Answer::bytes("x"));
        tokio::time::sleep(ms(1_200)).await;
        assert_eq!(faulty.calls(Operation::Renew), 1, "a renewal is in flight");
        let started = tokio::time::Instant::now();
        if is_dropped {
            let waiting = tokio::time::timeout(ms(100), attempt.completion(&answer)).await;
            assert!(waiting.is_err());
        }
        // two at once: both wait
        let both = futures_util::future::join(
            attempt.completion(&answer),
            guard.attempt().completion(&answer),
        );
        let (request, other) = both.await;
        assert!(other.is_some());
        assert_eq!(started.elapsed(), ms(300), "the renewal ended first");
        assert_eq!(faulty.complete(request.unwrap()).await.unwrap(), FinishOutcome::Done);
        let saved = attempt.save_checkpoint("late").await;
        assert!(matches!(saved, Err(CheckpointError::Lost)), "{saved:?}");
        tokio::time::sleep(ms(5_000)).await;
        assert_eq!(faulty.calls(Operation::Renew), 1);
        let joined = guard.joined(Otherwise::Release(Release::Failed)).await;
        assert!(matches!(joined, Joined::Committed(_)), "{joined:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_large_becomes_the_fact_that_it_is_done() {
    let store = store();
    let most = store.profile().max_response_bytes;
    let idempotency = executor(store.clone());
    let guard = begin(&idempotency).await;
    let attempt = guard.attempt().clone();
    let large = Answer::bytes(vec![7; most]);
    let request = attempt.completion(&large).await.unwrap();
    assert!(request.response.len() < 10);
    // and, not committed, it counts as the one that was joined
    let joined = guard.joined(Otherwise::Complete(large)).await;
    assert!(matches!(joined, Joined::Released(Release::Unknown)), "{joined:?}");
    let tombstone = Answer::not_kept(NotKeptReason::TooLarge);
    assert_eq!(attempt.joined_answer(), Some(tombstone.clone()));
    assert_eq!(tombstone.body(), AnswerBody::NotKept(NotKeptReason::TooLarge));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_protection_has_nothing_to_complete() {
    let faulty = Faulty::for_operation(store(), Operation::Claim, vec![Plan::LoseRequest; 999]);
    let open = builder(faulty).on_store_failure(OnStoreFailure::FailOpen).build().unwrap();
    let guard = begin(&open).await;
    assert!(!guard.attempt().is_protected());
    assert!(guard.attempt().completion(&Answer::bytes("x")).await.is_none());
    assert!(guard.attempt().joined_answer().is_none());
    let joined = guard.joined(Otherwise::Release(Release::Failed)).await;
    assert!(matches!(joined, Joined::Completed(Recorded::Unprotected)), "{joined:?}");
}

/// Kinds of fault: success without its effect is replayed, and an own lost success looks like a failure
/// (H-50). `run` asks what became of it too, and no caller is told of a success that was not committed.
#[tokio::test(start_paused = true)]
async fn a_run_whose_work_has_joined_gives_what_was_committed() {
    let answer = |value: u32| Answer::value(&Ok::<_, Refusal>(value), Codec::Json).unwrap();
    for is_committed in [true, false] {
        for result in [Ok(7), Err(Refusal)] {
            let (store, events) = (store(), Events::default());
            let idempotency = builder(store.clone()).observer(events.clone()).build().unwrap();
            let run = async |number: u32| {
                let work = async |attempt: Attempt| {
                    assert_eq!(attempt.number().get(), number);
                    let request = attempt.completion(&answer(7)).await.unwrap();
                    if is_committed {
                        assert_eq!(store.complete(request).await.unwrap(), FinishOutcome::Done);
                    }
                    result
                };
                idempotency.run(&key("k"), request("b"), work).await
            };
            let first = run(1).await;
            if is_committed {
                let first = first.unwrap();
                assert!(matches!(first, Outcome::Executed(Ok(7))), "{first:?}");
                let second = run(0).await.unwrap();
                assert!(matches!(second, Outcome::Replayed(Ok(7))), "{second:?}");
                assert_eq!(
                    (events.count(EventKind::Completed), events.count(EventKind::Lost)),
                    (1, 0)
                );
            } else {
                for ended in [first, run(2).await] {
                    match result {
                        Ok(_) => assert!(matches!(ended, Err(Error::RolledBack)), "{ended:?}"),
                        Err(_) => {
                            assert!(matches!(ended, Ok(Outcome::Executed(Err(_)))), "{ended:?}");
                        }
                    }
                }
            }
        }
    }
}

/// Kind of fault: a stale owner is told of a success that its successor has undone (H-06).
#[tokio::test(start_paused = true)]
async fn a_run_that_lost_its_key_and_did_not_commit_has_no_success() {
    let idempotency = executor(store());
    let work = async |attempt: Attempt| {
        let answer = Answer::value(&Ok::<_, Refusal>(7), Codec::Json).unwrap();
        assert!(attempt.completion(&answer).await.is_some());
        tokio::time::sleep(ms(3_100)).await;
        let successor = begin(&idempotency).await;
        assert!(matches!(successor.complete(Answer::bytes("new")).await, Recorded::Stored));
        Ok::<u32, Refusal>(7)
    };
    let ended = idempotency.run(&key("k"), request("b"), work).await;
    assert!(matches!(ended, Err(Error::RolledBack)), "{ended:?}");
}

/// Known not to have happened.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Refusal;

impl Classify for Refusal {
    fn disposition(&self) -> Disposition {
        Disposition::Failed
    }
}
