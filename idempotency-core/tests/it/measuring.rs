//! What observers are told in numbers, and that it costs nothing where nobody asks.

use std::sync::{Arc, Mutex};

use idempotency_core::{
    Answer, BeginOutcome, Begun, ErrorKind, Event, Idempotency, IdempotencyBuilder, Measurement,
    Observer, OnDuplicate, OnStoreFailure, Operation, Release, Source, TurnedAway,
};

use crate::support::*;

/// Remembers what was measured.
#[derive(Clone, Debug, Default)]
struct Measured(Arc<Mutex<Vec<(Source, Measurement)>>>);

impl Measured {
    fn take(&self) -> Vec<Measurement> {
        self.0.lock().unwrap().drain(..).map(|(_, measurement)| measurement).collect()
    }
}

impl Observer for Measured {
    fn observe(&self, _: &Event<'_>) {}

    fn measures(&self) -> bool {
        true
    }

    fn measure(&self, source: Source, measurement: Measurement) {
        self.0.lock().unwrap().push((source, measurement));
    }
}

/// Fails when it is told what it did not ask for.
#[derive(Debug)]
struct WantsNoNumbers;

impl Observer for WantsNoNumbers {
    fn observe(&self, _: &Event<'_>) {}

    fn measure(&self, _: Source, measurement: Measurement) {
        panic!("{measurement:?}");
    }
}

fn measured(builder: IdempotencyBuilder) -> (Idempotency, Measured) {
    let measured = Measured::default();
    (builder.observer(measured.clone()).build().unwrap(), measured)
}

async fn begin(idempotency: &Idempotency) -> Begun {
    idempotency.begin(&key("k"), request("body")).await.unwrap()
}

fn call(operation: Operation, error: Option<ErrorKind>, millis: u64) -> Measurement {
    Measurement::StoreCall { operation, error, elapsed: ms(millis) }
}

fn begun(outcome: BeginOutcome, millis: u64) -> Measurement {
    Measurement::Begun { outcome, elapsed: ms(millis) }
}

/// What never comes to the executor is told beside what does, by its label.
#[test]
fn what_is_turned_away_is_told_to_who_measures() {
    let (idempotency, measured) = measured(builder(store()));
    let idempotency = idempotency.with_label("payouts");
    idempotency.turn_away(TurnedAway::KeyMissing);
    let source = Source { store: "map", label: "payouts" };
    let told = Measurement::TurnedAway { reason: TurnedAway::KeyMissing };
    assert_eq!(*measured.0.lock().unwrap(), [(source, told)]);
    let deaf = builder(store()).observer(WantsNoNumbers).build().unwrap();
    deaf.turn_away(TurnedAway::KeyMissing);
}

#[tokio::test(start_paused = true)]
async fn store_calls_and_holds_are_timed() {
    let faulty = Faulty::new(store(), |_| Plan::SlowReply(ms(40)));
    let (idempotency, measured) = measured(builder(faulty));
    let Begun::Acquired(guard) = begin(&idempotency).await else { panic!("not acquired") };
    tokio::time::sleep(ms(500)).await;
    let _stored = guard.complete(Answer::bytes("x")).await;
    let told = [
        call(Operation::Claim, None, 40),
        Measurement::HoldBegan,
        begun(BeginOutcome::First, 40),
        call(Operation::Complete, None, 40),
        Measurement::HoldEnded { elapsed: ms(540) },
    ];
    assert_eq!(measured.take(), told);
    let Begun::Replayed(_) = begin(&idempotency).await else { panic!("not replayed") };
    assert_eq!(
        measured.take(),
        [call(Operation::Claim, None, 40), begun(BeginOutcome::Replayed, 40)]
    );
}

/// A try that fails is timed as well, a time-out by the time-out.
#[tokio::test(start_paused = true)]
async fn failed_tries_are_timed_and_say_what_failed() {
    let plans = vec![Plan::Hang, Plan::Refuse(ErrorKind::Denied)];
    let faulty = Faulty::for_operation(store(), Operation::Claim, plans);
    let (idempotency, measured) = measured(builder(faulty).store_timeout(ms(200)));
    let error = idempotency.begin(&key("k"), request("body")).await.unwrap_err();
    let told = measured.take();
    assert_eq!(
        told[..2],
        [
            call(Operation::Claim, Some(ErrorKind::Timeout), 200),
            call(Operation::Claim, Some(ErrorKind::Denied), 0),
        ]
    );
    let Measurement::Begun { outcome: BeginOutcome::Refused, .. } = told[2] else {
        panic!("{told:?} {error}")
    };
}

#[tokio::test(start_paused = true)]
async fn waiting_is_told_from_its_beginning_to_its_end() {
    let wait = OnDuplicate::Wait { timeout: ms(2_000) };
    let (idempotency, measured) = measured(builder(store()).on_duplicate(wait));
    let Begun::Acquired(guard) = begin(&idempotency).await else { panic!("not acquired") };
    measured.take();
    let waiter = {
        let idempotency = idempotency.clone();
        tokio::spawn(async move { begin(&idempotency).await })
    };
    tokio::time::sleep(ms(300)).await;
    assert!(measured.take().contains(&Measurement::WaitBegan));
    let _stored = guard.complete(Answer::bytes("x")).await;
    assert!(matches!(waiter.await.unwrap(), Begun::Replayed(_)));
    let told = measured.take();
    assert!(told.contains(&Measurement::WaitEnded { elapsed: ms(300) }), "{told:?}");
    assert!(told.contains(&begun(BeginOutcome::Replayed, 300)), "{told:?}");
    // nobody is left: also one that gives up waiting ends
    let waits = |told: &[Measurement]| {
        let is_end = |m: &&Measurement| matches!(m, Measurement::WaitEnded { .. });
        told.iter().filter(is_end).count()
    };
    assert_eq!(waits(&told), 1);
}

/// Whatever becomes of a guard, its end is told exactly once.
#[tokio::test(start_paused = true)]
async fn each_hold_ends_once_however_it_ends() {
    for way in 0..6 {
        let plans = if way == 5 { vec![Plan::Refuse(ErrorKind::Denied); 99] } else { vec![] };
        let faulty = Faulty::for_operation(store(), Operation::Complete, plans);
        let (idempotency, measured) = measured(builder(faulty));
        let Begun::Acquired(guard) = begin(&idempotency).await else { panic!("not acquired") };
        match way {
            0 => drop(guard.complete(Answer::bytes("x")).await),
            1 => drop(guard.release(Release::Failed).await),
            2 => drop(guard),
            3 => drop(guard.detach().await.unwrap()),
            4 => drop(guard.detach().await.unwrap().release(Release::Unknown).await),
            _ => drop(guard.complete(Answer::bytes("never stored")).await),
        }
        let told = measured.take();
        let count = |is: fn(&&Measurement) -> bool| told.iter().filter(is).count();
        assert_eq!(count(|m| matches!(m, Measurement::HoldBegan)), 1, "way {way}");
        assert_eq!(count(|m| matches!(m, Measurement::HoldEnded { .. })), 1, "way {way}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_without_protection_is_a_hold_too() {
    let faulty = Faulty::new(store(), |_| Plan::Refuse(ErrorKind::Unavailable));
    let open = builder(faulty).on_store_failure(OnStoreFailure::FailOpen).store_deadline(ms(2_000));
    let (idempotency, measured) = measured(open);
    let guard = begin(&idempotency).await;
    let told = measured.take();
    let [.., Measurement::HoldBegan, last] = told.as_slice() else { panic!("{told:?}") };
    assert!(matches!(last, Measurement::Begun { outcome: BeginOutcome::Unprotected, .. }));
    tokio::time::sleep(ms(70)).await;
    drop(guard);
    assert_eq!(measured.take(), [Measurement::HoldEnded { elapsed: ms(70) }]);
}

#[tokio::test(start_paused = true)]
async fn several_observers_hear_the_same_and_only_who_asks_gets_numbers() {
    let (first, second, measured) = (Events::default(), Events::default(), Measured::default());
    let idempotency = builder(store())
        .observer((first.clone(), WantsNoNumbers))
        .add_observer(measured.clone())
        .add_observer(Arc::new(second.clone()))
        .label("payouts")
        .build()
        .unwrap();
    let _executed = run_ok(&idempotency, "k").await;
    assert_eq!(first.kinds(), second.kinds());
    assert_eq!(first.kinds().len(), 2);
    let sources: Vec<_> = measured.0.lock().unwrap().iter().map(|(s, _)| *s).collect();
    let name = idempotency.connected().store().profile().name;
    let source = Source { store: name, label: "payouts" };
    assert!(sources.iter().all(|told| *told == source));
    assert_eq!(sources.len(), 5);
    assert_eq!(idempotency.with_label("refunds").label(), "refunds");
    // alone, it is never asked
    let quiet = builder(store()).observer(WantsNoNumbers).build().unwrap();
    let _executed = run_ok(&quiet, "k").await;
}
