use idempotency_core::{
    Begun, Effect, Error, ErrorKind, EventKind, IdempotencyStore, OnDuplicate, OnStoreFailure,
    Operation, Outcome, Recorded,
};

use crate::support::*;

/// Kind of fault: fail open by default (H-59). Refused and hung stores: nothing runs, within the
/// configured time; when the store is back, no restart is needed.
#[tokio::test(start_paused = true)]
async fn without_the_store_nothing_runs() {
    for plan in [Plan::Refuse(ErrorKind::Unavailable), Plan::LoseRequest, Plan::Hang] {
        let down = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let flag = std::sync::Arc::clone(&down);
        let faulty = Faulty::new(store(), move |_| {
            if flag.load(std::sync::atomic::Ordering::SeqCst) { plan } else { Plan::Deliver }
        });
        let idempotency = executor(faulty.clone());
        let work = async |_| -> Result<u32, Refused> { panic!("it ran") };
        let key = key("k");
        let run = idempotency.run(&key, request("body"), work);
        // the deadline of 5 s and one last try of 750 ms
        let error = tokio::time::timeout(ms(5_800), run).await.expect("too late").unwrap_err();
        let Error::Store(error) = error else { panic!("{error}") };
        assert!(error.is_transient());
        let unknown = if plan == Plan::Refuse(ErrorKind::Unavailable) {
            Effect::None
        } else {
            Effect::Unknown
        };
        assert_eq!(error.effect(), unknown);
        assert!(faulty.calls(Operation::Claim) > 3, "it was tried again");
        down.store(false, std::sync::atomic::Ordering::SeqCst);
        assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Executed(Ok(1))));
    }
}

/// Failing open is a setting of its own, and counted. Unreadable records are refused all the same.
#[tokio::test(start_paused = true)]
async fn failing_open_runs_unprotected_and_says_so() {
    let events = Events::default();
    let faulty = Faulty::new(store(), |_| Plan::LoseRequest);
    let open = |faulty| {
        builder(faulty)
            .on_store_failure(OnStoreFailure::FailOpen)
            .observer(events.clone())
            .build()
            .unwrap()
    };
    let work = async |attempt: idempotency_core::Attempt| {
        assert!(!attempt.is_protected());
        let unsaved = attempt.save_checkpoint("x").await.unwrap_err();
        assert!(matches!(unsaved, idempotency_core::CheckpointError::Unprotected));
        Ok::<_, Refused>(1_u32)
    };
    let outcome = open(faulty).run(&key("k"), request("body"), work).await.unwrap();
    assert!(matches!(outcome, Outcome::Executed(Ok(1))));
    assert_eq!(events.count(EventKind::RanUnprotected), 1);
    for kind in [ErrorKind::Corrupt, ErrorKind::Denied, ErrorKind::Invalid] {
        let faulty = Faulty::new(store(), move |_| Plan::Refuse(kind));
        let work = async |_| -> Result<u32, Refused> { panic!("it ran") };
        let _error = open(faulty).run(&key("k"), request("body"), work).await.unwrap_err();
    }
}

/// Kind of fault: an own lost success looks like a conflict (H-50): every reply is lost once.
#[tokio::test(start_paused = true)]
async fn an_own_lost_success_is_no_conflict() {
    for operation in [Operation::Claim, Operation::Complete, Operation::Renew, Operation::Release] {
        for plan in [Plan::LoseReply, Plan::LoseRequest, Plan::Hang, Plan::ArriveTwice(ms(50))] {
            let faulty = Faulty::for_operation(store(), operation, vec![plan]);
            let idempotency = executor(faulty);
            let failing = operation == Operation::Release;
            let work = async |attempt: idempotency_core::Attempt| {
                tokio::time::sleep(ms(1_500)).await;
                assert!(!attempt.is_lost());
                if failing { Err(Refused::Passing) } else { Ok(attempt.number().get()) }
            };
            let outcome = idempotency.run(&key("k"), request("body"), work).await.unwrap();
            assert!(matches!(outcome, Outcome::Executed(_)), "{operation} {plan:?}");
            let again = run_ok(&idempotency, "k").await;
            if failing {
                assert!(matches!(again, Outcome::Executed(Ok(2))), "{plan:?} {again:?}");
            } else {
                assert!(matches!(again, Outcome::Replayed(Ok(1))), "{operation} {plan:?}");
            }
        }
    }
}

/// Kinds of fault: the result could not be saved (H-13); a failed save cleans the claim up (H-14).
/// Completing is tried until the lease ends; until then no retry runs, and the caller has its
/// answer.
#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_stored_is_tried_until_the_lease_ends() {
    let (store, events) = (store(), Events::default());
    for (plan, name) in [(Plan::LoseRequest, "refused"), (Plan::Hang, "hung")] {
        let faulty = Faulty::new(store.clone(), move |operation| {
            if operation == Operation::Complete { plan } else { Plan::Deliver }
        });
        let idempotency = builder(faulty.clone()).observer(events.clone()).build().unwrap();
        let run = {
            let idempotency = idempotency.clone();
            tokio::spawn(async move { run_ok(&idempotency, name).await })
        };
        tokio::time::sleep(ms(2_900)).await;
        assert!(!run.is_finished(), "it is still trying");
        assert!(matches!(run_ok(&idempotency, name).await, Outcome::InProgress(_)));
        assert!(matches!(run.await.unwrap(), Outcome::Executed(Ok(1))));
        assert!(faulty.calls(Operation::Complete) >= 4);
        assert_eq!(faulty.calls(Operation::Release), 0, "a failed save frees nothing");
        tokio::time::sleep(ms(1_000)).await;
        let next = run_ok(&executor(store.clone()), name).await;
        assert!(matches!(next, Outcome::Executed(Ok(2))), "the next attempt is told: {next:?}");
    }
    assert_eq!(events.count(EventKind::Unrecorded), 2);
}

/// The same with a store that comes back in time.
#[tokio::test(start_paused = true)]
async fn an_answer_is_stored_when_the_store_comes_back_within_the_lease() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Full, ErrorKind::Throttled] {
        let plans = vec![Plan::Refuse(kind); 4];
        let faulty = Faulty::for_operation(store(), Operation::Complete, plans);
        let idempotency = executor(faulty);
        assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Executed(Ok(1))));
        assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Replayed(Ok(1))));
    }
}

/// Kinds of fault: eviction and failover lose the record (H-46, H-49): the report is `Restored`, and
/// retries get the answer.
#[tokio::test(start_paused = true)]
async fn a_lost_record_is_restored_and_reported() {
    let (store, events) = (store(), Events::default());
    let idempotency = builder(store.clone()).observer(events.clone()).build().unwrap();
    let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("body")).await.unwrap()
    else {
        panic!("not acquired")
    };
    store.records().lose_all();
    let answer =
        idempotency_core::Answer::value::<u32, Refused>(&Ok(1), idempotency_core::Codec::default());
    assert!(matches!(guard.complete(answer.unwrap()).await, Recorded::Restored));
    assert_eq!(events.count(EventKind::Restored), 1);
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Replayed(Ok(1))));
}

/// A heartbeat of a lost record does not bring it back; the owner is told.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_never_creates_a_record() {
    let store = store();
    let idempotency = executor(store.clone());
    let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("body")).await.unwrap()
    else {
        panic!("not acquired")
    };
    store.records().lose_all();
    eventually("the owner is told", || async { guard.attempt().is_lost() }).await;
    assert_eq!(store.lookup(&key("k")).await.unwrap(), None);
}

/// Kind of fault: fail open beside a running attempt (H-59). A store that goes down after it has said that
/// the key is in use leaves nothing to guess.
#[tokio::test(start_paused = true)]
async fn failing_open_never_runs_beside_an_attempt_that_is_known_to_run() {
    let store = store();
    let mut claims = 0;
    let faulty = Faulty::new(store.clone(), move |operation| {
        claims += u32::from(operation == Operation::Claim);
        if claims > 1 { Plan::LoseRequest } else { Plan::Deliver }
    });
    let idempotency = builder(faulty)
        .on_store_failure(OnStoreFailure::FailOpen)
        .on_duplicate(OnDuplicate::Wait { timeout: ms(10_000) })
        .build()
        .unwrap();
    let begun = executor(store).begin(&key("k"), request("body")).await.unwrap();
    let Begun::Acquired(_guard) = begun else { panic!("not acquired") };
    let work = async |_| -> Result<u32, Refused> { panic!("it ran") };
    let outcome = idempotency.run(&key("k"), request("body"), work).await;
    assert!(matches!(outcome, Err(Error::Store(_))), "{outcome:?}");
}
