use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use idempotency_core::{
    Answer, AnswerBody, AnswerError, Begun, Codec, Disposition, Error, ErrorKind, EventKind,
    IdempotencyStore, NotKeptReason, Operation, Outcome, Recorded, ResultPolicy,
};

use crate::support::*;

async fn run_with_error(idempotency: &idempotency_core::Idempotency, error: Refused) -> Out {
    idempotency.run(&key("k"), request("body"), async |_| Err(error)).await.unwrap()
}

/// Kind of fault: which outcomes are final (H-19, H-20).
#[tokio::test(start_paused = true)]
async fn final_errors_are_replayed_and_passing_ones_run_again() {
    for (error, next) in [
        (Refused::Final, None),
        (Refused::Passing, Some(2)),
        (Refused::NotStarted, Some(1)),
        (Refused::Perhaps, Some(2)),
    ] {
        let idempotency = executor(store());
        let first = run_with_error(&idempotency, error.clone()).await;
        assert!(matches!(first, Outcome::Executed(Err(ref e)) if *e == error));
        match (run_ok(&idempotency, "k").await, next) {
            (Outcome::Replayed(Err(Refused::Final)), None) => {}
            (Outcome::Executed(Ok(attempt)), Some(expected)) => assert_eq!(attempt, expected),
            (other, _) => panic!("after {error:?}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn policies_decide_what_is_stored() {
    let outcome_after = async |policy, error| {
        let idempotency = builder(store()).result_policy(policy).build().unwrap();
        let _ran = run_with_error(&idempotency, error).await;
        run_ok(&idempotency, "k").await
    };
    let all = outcome_after(ResultPolicy::All, Refused::Passing).await;
    assert!(matches!(all, Outcome::Replayed(Err(Refused::Passing))), "{all:?}");
    let success_only = outcome_after(ResultPolicy::SuccessOnly, Refused::Final).await;
    assert!(matches!(success_only, Outcome::Executed(Ok(2))), "{success_only:?}");
}

#[tokio::test(start_paused = true)]
async fn foreign_error_types_are_classified_by_a_function() {
    let idempotency = executor(store());
    let classify = |error: &String| match error.as_str() {
        "declined" => Disposition::Store,
        _ => Disposition::Failed,
    };
    for (error, runs) in [("declined", 1), ("timeout", 2)] {
        let count = AtomicU32::new(0);
        for _ in 0..2 {
            let work = async |_| {
                count.fetch_add(1, Ordering::SeqCst);
                Err::<u32, _>(error.to_owned())
            };
            let key = key(error);
            let _any = idempotency.run_with(&key, request("b"), classify, work).await.unwrap();
        }
        assert_eq!(count.load(Ordering::SeqCst), runs, "{error}");
    }
}

/// Kind of fault: work that panics (H-10, H-11): the key is released as unknown at once, and the
/// next attempt is told.
#[tokio::test(start_paused = true)]
async fn a_panic_is_passed_on_and_the_next_attempt_is_told() {
    let (store, events) = (store(), Events::default());
    let idempotency = builder(store).observer(events.clone()).build().unwrap();
    let panicking = {
        let idempotency = idempotency.clone();
        tokio::spawn(async move {
            let work = async |_| -> Result<u32, Refused> { panic!("after the effect") };
            idempotency.run(&key("k"), request("body"), work).await
        })
    };
    assert!(panicking.await.unwrap_err().is_panic());
    let unknown = EventKind::Released(idempotency_core::Release::Unknown);
    assert_eq!(events.count(unknown), 1);
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Executed(Ok(2))));
}

/// Kind of fault: an empty result looks like no result (H-21).
#[tokio::test(start_paused = true)]
async fn empty_results_are_results() {
    let idempotency = executor(store());
    let runs = AtomicU32::new(0);
    for _ in 0..3 {
        let work = async |_| {
            runs.fetch_add(1, Ordering::SeqCst);
            Ok::<(), Refused>(())
        };
        let _any = idempotency.run(&key("unit"), request("b"), work).await.unwrap();
        if let Begun::Acquired(guard) = idempotency.begin(&key("raw"), request("b")).await.unwrap()
        {
            runs.fetch_add(1, Ordering::SeqCst);
            assert!(matches!(guard.complete(Answer::bytes([])).await, Recorded::Stored));
        }
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// Kinds of fault: too big to store, so not protected (H-39); an answer that cannot be written.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_kept_is_known_to_be_done() {
    let (store, events) = (store(), Events::default());
    let idempotency = builder(store.clone()).observer(events.clone()).build().unwrap();
    let limit = store.profile().max_response_bytes;
    // the format and the quotes take 5 bytes
    for (name, length, kept) in
        [("just under", limit - 6, true), ("at", limit - 5, true), ("over", limit - 4, false)]
    {
        let work = async |_| Ok::<_, Refused>("x".repeat(length));
        let first = idempotency.run(&key(name), request("b"), work).await.unwrap();
        assert!(matches!(first, Outcome::Executed(Ok(text)) if text.len() == length));
        match idempotency.run(&key(name), request("b"), work).await.unwrap() {
            Outcome::Replayed(Ok(text)) if kept => assert_eq!(text.len(), length),
            Outcome::NotKept(done) if !kept => assert_eq!(done.reason, NotKeptReason::TooLarge),
            other => panic!("{name}: {other:?}"),
        }
    }
    let unwritable = async |_| Ok::<_, Refused>(std::collections::BTreeMap::from([((1, 2), 3)]));
    let first = idempotency.run(&key("map"), request("b"), unwritable).await.unwrap();
    assert!(matches!(first, Outcome::Executed(Ok(_))));
    let second = idempotency.run(&key("map"), request("b"), unwritable).await.unwrap();
    let Outcome::NotKept(done) = second else { panic!("{second:?}") };
    assert_eq!(done.reason, NotKeptReason::NotEncodable);
    assert_eq!(events.count(EventKind::NotKept), 2);
}

/// A store that counts otherwise than its profile says still ends in "done, not kept".
#[tokio::test(start_paused = true)]
async fn a_store_that_finds_an_answer_too_large_keeps_that_it_is_done() {
    let plans = vec![Plan::Refuse(ErrorKind::TooLarge)];
    let faulty = Faulty::for_operation(store(), Operation::Complete, plans);
    let idempotency = executor(faulty);
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Executed(Ok(1))));
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::NotKept(_)));
}

/// Kinds of fault: foreign content under the key (H-22); a record of a newer release (H-27). The
/// work does not run, and nothing is overwritten.
#[tokio::test(start_paused = true)]
async fn unreadable_records_are_errors_and_stay() {
    for foreign in ["", "1", "{\"status\":\"done\"}", "IDEM\u{2}from the future"] {
        let store = store();
        let idempotency = executor(store.clone());
        let _first = run_ok(&idempotency, "k").await;
        store.records().overwrite_all(&Bytes::copy_from_slice(foreign.as_bytes()));
        let before = store.records().raw();
        let work = async |_| -> Result<u32, Refused> { panic!("it ran") };
        let error = idempotency.run(&key("k"), request("body"), work).await.unwrap_err();
        let Error::Store(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(store.records().raw(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_another_type_is_an_error_and_stays() {
    let idempotency = executor(store());
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Executed(Ok(1))));
    let work = async |_| -> Result<String, Refused> { panic!("it ran") };
    let error = idempotency.run(&key("k"), request("body"), work).await.unwrap_err();
    assert!(matches!(error, Error::Answer(AnswerError::Type(_))), "{error}");
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Replayed(Ok(1))));
}

/// A service may change its codec while old answers are kept.
#[tokio::test(start_paused = true)]
async fn answers_name_their_codec() {
    let idempotency = executor(store());
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Executed(Ok(1))));
    let codecs = [
        Codec::Json,
        #[cfg(feature = "bincode")]
        Codec::Bincode,
        #[cfg(feature = "postcard")]
        Codec::Postcard,
    ];
    for codec in codecs {
        let other = idempotency.to_builder().codec(codec).build().unwrap();
        assert!(matches!(run_ok(&other, "k").await, Outcome::Replayed(Ok(1))));
        let name = format!("{codec:?}");
        assert!(matches!(run_ok(&other, &name).await, Outcome::Executed(Ok(1))));
        assert!(matches!(run_ok(&idempotency, &name).await, Outcome::Replayed(Ok(1))));
    }
}

/// JSON answers survive a field that a new release adds.
#[tokio::test(start_paused = true)]
async fn a_field_added_while_answers_are_kept_does_no_harm() {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Before {
        id: u32,
    }
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct After {
        id: u32,
        #[serde(default)]
        note: Option<String>,
    }
    let idempotency = executor(store());
    let work = async |_| Ok::<_, Refused>(Before { id: 7 });
    let _first = idempotency.run(&key("k"), request("b"), work).await.unwrap();
    let work = async |_| -> Result<After, Refused> { panic!("it ran") };
    match idempotency.run(&key("k"), request("b"), work).await.unwrap() {
        Outcome::Replayed(Ok(After { id: 7, note: None })) => {}
        other => panic!("{other:?}"),
    }
}

/// Kind of fault: retention counted from different moments (H-17): from completion.
#[tokio::test(start_paused = true)]
async fn retention_counts_from_completion() {
    let idempotency = builder(store()).retention(retention(10_000)).build().unwrap();
    let work = async |_| {
        tokio::time::sleep(ms(4_000)).await;
        Ok::<_, Refused>(1_u32)
    };
    let _first = idempotency.run(&key("k"), request("body"), work).await.unwrap();
    tokio::time::sleep(ms(9_990)).await;
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Replayed(Ok(1))));
    tokio::time::sleep(ms(20)).await;
    // nothing of the expired record survives: it is attempt 1 again
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Executed(Ok(1))));
}

/// Kind of fault: a failure that expires at once or never (H-18).
#[tokio::test(start_paused = true)]
async fn a_failure_after_the_lease_frees_the_key_at_once() {
    let faulty = Faulty::new(store(), |operation| {
        if operation == Operation::Renew { Plan::LoseRequest } else { Plan::Deliver }
    });
    let idempotency = executor(faulty);
    let work = async |_| {
        tokio::time::sleep(ms(4_000)).await;
        Err::<u32, _>(Refused::Passing)
    };
    let _first = idempotency.run(&key("k"), request("body"), work).await.unwrap();
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Executed(Ok(2))));
}

/// `begin` sees the same key as `run`, and says what kind of answer it found.
#[tokio::test(start_paused = true)]
async fn both_doors_share_the_key() {
    let idempotency = executor(store());
    let _first = run_ok(&idempotency, "k").await;
    let Begun::Replayed(replayed) = idempotency.begin(&key("k"), request("body")).await.unwrap()
    else {
        panic!("not replayed")
    };
    assert_eq!(replayed.answer.body(), AnswerBody::Value);
    assert_eq!(replayed.answer.to_value::<u32, Refused>().unwrap(), Ok(1));
}
