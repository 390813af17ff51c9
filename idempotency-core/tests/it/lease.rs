use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use idempotency_core::{
    AttemptNumber, Begun, CheckpointError, Clock, Effect, Error, ErrorKind, EventKind,
    IdempotencyStore, ManualClock, Operation, Outcome, Recorded, Release, ReleaseOutcome, State,
    SystemClock,
};

use crate::support::*;

/// Runs 5 s of work under a lease of 3 s and a duplicate every 100 ms; answers how often it ran.
async fn five_seconds_of_work(store: Faulty) -> (u32, Out) {
    let idempotency = executor(store);
    let runs = Arc::new(AtomicU32::new(0));
    let one = |idempotency: idempotency_core::Idempotency, runs: Arc<AtomicU32>| async move {
        let work = async |_| {
            runs.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(ms(5_000)).await;
            Ok::<_, Refused>(1_u32)
        };
        idempotency.run(&key("k"), request("body"), work).await.unwrap()
    };
    let owner = tokio::spawn(one(idempotency.clone(), Arc::clone(&runs)));
    for _ in 0..45 {
        tokio::time::sleep(ms(100)).await;
        let duplicate = one(idempotency.clone(), Arc::clone(&runs)).await;
        assert!(matches!(duplicate, Outcome::InProgress(_)), "{duplicate:?}");
    }
    (runs.load(Ordering::SeqCst), owner.await.unwrap())
}

/// Kind of fault: the lease runs out while the work is busy (H-07), with every second renewal lost,
/// and with every second reply of one.
#[tokio::test(start_paused = true)]
async fn busy_work_keeps_its_key_though_every_second_renewal_fails() {
    for plan in [Plan::Deliver, Plan::LoseRequest, Plan::LoseReply, Plan::Hang] {
        let mut renewals = 0;
        let faulty = Faulty::new(store(), move |operation| {
            renewals += u32::from(operation == Operation::Renew);
            if operation == Operation::Renew && renewals % 2 == 0 { plan } else { Plan::Deliver }
        });
        let (runs, owner) = five_seconds_of_work(faulty.clone()).await;
        assert_eq!(runs, 1);
        assert!(matches!(owner, Outcome::Executed(Ok(1))));
        assert!(faulty.calls(Operation::Renew) >= 4);
    }
}

/// Kind of fault: the lease runs out while the work blocks its thread (H-07): less than a third of
/// the lease does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn work_that_blocks_its_thread_for_less_than_a_third_of_the_lease_keeps_its_key() {
    let idempotency = builder(store()).lease(lease(1_500)).build().unwrap();
    let work = async |attempt: idempotency_core::Attempt| {
        for _ in 0..5 {
            std::thread::sleep(ms(450));
            tokio::task::yield_now().await;
        }
        Ok::<_, Refused>(u32::from(attempt.is_lost()))
    };
    let outcome = idempotency.run(&key("k"), request("body"), work).await.unwrap();
    assert!(matches!(outcome, Outcome::Executed(Ok(0))), "{outcome:?}");
}

/// Kinds of fault: a killed owner locks its key for the retention (H-02); dropped work (H-10).
#[tokio::test(start_paused = true)]
async fn a_dead_owner_holds_its_key_for_one_lease() {
    let idempotency = executor(store());
    let Begun::Acquired(guard) = idempotency.begin(&key("k"), request("body")).await.unwrap()
    else {
        panic!("not acquired")
    };
    drop(guard);
    tokio::time::sleep(ms(500)).await;
    let Outcome::InProgress(running) = run_ok(&idempotency, "k").await else { panic!("it ran") };
    assert!(running.retry_after() <= ms(2_500), "{running:?}");
    tokio::time::sleep(ms(2_600)).await;
    let second = run_ok(&idempotency, "k").await;
    assert!(matches!(second, Outcome::Executed(Ok(2))), "the next attempt is told: {second:?}");
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Replayed(Ok(2))));
}

/// Kind of fault: work that hangs holds its key for ever (H-09).
#[tokio::test(start_paused = true)]
async fn renewal_ends_at_the_hold_limit_and_says_so() {
    let events = Events::default();
    let idempotency =
        builder(store()).max_hold(ms(6_000)).observer(events.clone()).build().unwrap();
    let hung = {
        let idempotency = idempotency.clone();
        tokio::spawn(async move {
            let work = async |attempt: idempotency_core::Attempt| {
                attempt.lost().await;
                std::future::pending::<Result<u32, Refused>>().await
            };
            idempotency.run(&key("k"), request("body"), work).await
        })
    };
    tokio::time::sleep(ms(5_000)).await;
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::InProgress(_)));
    tokio::time::sleep(ms(5_000)).await;
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Executed(Ok(2))));
    assert_eq!(events.count(EventKind::HoldLimitReached), 1);
    assert_eq!(events.count(EventKind::Lost), 1);
    hung.abort();
}

/// Kinds of fault: a late owner deletes its successor's claim (H-06); a stale owner stores over it.
#[tokio::test(start_paused = true)]
async fn an_owner_that_was_taken_over_from_changes_nothing() {
    let store = store();
    // the first owner's network swallows all its renewals
    let cut_off = Faulty::new(store.clone(), |operation| {
        if operation == Operation::Renew { Plan::Hang } else { Plan::Deliver }
    });
    let events = Events::default();
    let (first, second) =
        (builder(cut_off).observer(events.clone()).build().unwrap(), executor(store.clone()));
    for complete in [true, false] {
        let name = if complete { "complete" } else { "release" };
        let Begun::Acquired(stale) = first.begin(&key(name), request("body")).await.unwrap() else {
            panic!("not acquired")
        };
        tokio::time::sleep(ms(3_100)).await;
        assert!(stale.attempt().is_lost(), "the work is told at its deadline");
        let Begun::Acquired(owner) = second.begin(&key(name), request("body")).await.unwrap()
        else {
            panic!("not taken over")
        };
        assert_eq!(owner.attempt().number(), AttemptNumber::FIRST.next());
        let before = store.records().raw();
        if complete {
            let answer = idempotency_core::Answer::bytes("stale");
            assert!(matches!(stale.complete(answer).await, Recorded::Lost));
        } else {
            let released = stale.release(Release::Failed).await.unwrap();
            assert_eq!(released, ReleaseOutcome::Lost);
        }
        assert_eq!(store.records().raw(), before, "{name}");
        drop(owner);
    }
    assert_eq!(events.count(EventKind::Lost), 2);
}

/// C13: an answer that comes after the lease, when nobody took over, is kept.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_kept_when_nobody_took_over() {
    let faulty = Faulty::new(store(), |operation| {
        if operation == Operation::Renew { Plan::LoseRequest } else { Plan::Deliver }
    });
    let idempotency = executor(faulty);
    let work = async |_| {
        tokio::time::sleep(ms(10_000)).await;
        Ok::<_, Refused>(1_u32)
    };
    let outcome = idempotency.run(&key("k"), request("body"), work).await.unwrap();
    assert!(matches!(outcome, Outcome::Executed(Ok(1))));
    assert!(matches!(run_ok(&idempotency, "k").await, Outcome::Replayed(Ok(1))));
}

/// C61: the lease counts from before the claim was sent; one that is nearly over when the reply comes
/// is renewed before the work starts.
#[tokio::test(start_paused = true)]
async fn work_does_not_start_on_a_lease_that_is_nearly_over() {
    for (reply_takes, renewals) in [(1_000, 0), (2_100, 1)] {
        let plans = vec![Plan::SlowReply(ms(reply_takes))];
        let faulty = Faulty::for_operation(store(), Operation::Claim, plans);
        let idempotency = patient(faulty.clone());
        let started_after = async |attempt: idempotency_core::Attempt| {
            assert_eq!(attempt.number(), AttemptNumber::FIRST);
            Ok::<_, Refused>(1_u32)
        };
        let outcome = idempotency.run(&key("k"), request("body"), started_after).await.unwrap();
        assert!(matches!(outcome, Outcome::Executed(Ok(1))));
        assert_eq!(faulty.calls(Operation::Renew), renewals, "{reply_takes}");
    }
}

/// C61, C47: when somebody else took over before the work could start, the work does not start on
/// the lost claim, and its token is not used again.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_lost_before_the_work_starts_is_made_anew() {
    let store = store();
    let plans = vec![Plan::SlowReply(ms(3_900))];
    let faulty = Faulty::for_operation(store.clone(), Operation::Claim, plans);
    let late = {
        let idempotency = patient(faulty.clone());
        tokio::spawn(async move { run_ok(&idempotency, "k").await })
    };
    tokio::time::sleep(ms(3_100)).await;
    let failing = async |_| Err::<u32, _>(Refused::Passing);
    let other = executor(store).run(&key("k"), request("body"), failing).await.unwrap();
    assert!(matches!(other, Outcome::Executed(Err(Refused::Passing))));
    let outcome = late.await.unwrap();
    assert!(matches!(outcome, Outcome::Executed(Ok(3))), "{outcome:?}");
    assert_eq!((faulty.calls(Operation::Claim), faulty.calls(Operation::Renew)), (2, 1));
}

/// A store too slow for the lease: nothing runs, and the key is given back as never started.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_too_slow_for_the_lease_starts_no_work() {
    let faulty = Faulty::new(store(), |operation| match operation {
        Operation::Claim | Operation::Renew => Plan::SlowReply(ms(2_500)),
        _ => Plan::Deliver,
    });
    let work = async |_| -> Result<u32, Refused> { panic!("it ran") };
    let error = patient(faulty.clone()).run(&key("k"), request("body"), work).await.unwrap_err();
    assert!(matches!(error, Error::StoreTooSlow { .. }), "{error}");
    assert_eq!(faulty.lookup(&key("k")).await.unwrap(), None);
}

/// An executor that lets one try take 4 s, under a lease of 3 s: longer than the settings allow, so
/// its time-outs are stretched by its clock.
fn patient(store: Faulty) -> idempotency_core::Idempotency {
    builder(store).clock(Stretched(SystemClock::new())).build().unwrap()
}

/// A claim answered by its own token (C03) can have no lease left: it is renewed first.
#[tokio::test(start_paused = true)]
async fn a_claim_recognised_after_its_lease_is_renewed_before_the_work() {
    // the first try is applied at once and its reply lost for longer than the lease
    let plans = vec![Plan::LoseReply];
    let faulty = Faulty::for_operation(store(), Operation::Claim, plans);
    let clock = LateSecondTry::default();
    let idempotency = builder(faulty.clone()).clock(clock).build().unwrap();
    let work = async |attempt: idempotency_core::Attempt| {
        assert!(!attempt.is_lost());
        Ok::<_, Refused>(attempt.number().get())
    };
    let outcome = idempotency.run(&key("k"), request("body"), work).await.unwrap();
    assert!(matches!(outcome, Outcome::Executed(Ok(1))), "{outcome:?}");
    assert_eq!(faulty.calls(Operation::Claim), 2);
    assert!(faulty.calls(Operation::Renew) >= 1);
}

/// Kind of fault: clock jumps (H-61). Only the monotonic clock of the executor and the store's own
/// clock count; a store's clock that jumps ahead loses the claim, and the owner finds out.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_stores_clock_is_noticed() {
    let jumping = ManualClock::new();
    let store = idempotency_core::CasStore::new(MapRecords::with_clock(jumping.clone()));
    let counted = Faulty::new(store.clone(), |_| Plan::Deliver);
    let (first, second) = (executor(counted.clone()), executor(store));
    let Begun::Acquired(guard) = first.begin(&key("k"), request("body")).await.unwrap() else {
        panic!("not acquired")
    };
    jumping.advance(ms(3_600_000));
    assert!(matches!(run_ok(&second, "k").await, Outcome::Executed(Ok(2))));
    eventually("the heartbeat finds out", || async { guard.attempt().is_lost() }).await;
    let recorded = guard.complete(idempotency_core::Answer::bytes("x")).await;
    assert!(matches!(recorded, Recorded::Lost));
    assert_eq!(counted.calls(Operation::Complete), 0, "C62: after Lost no completion is sent");
    assert!(matches!(run_ok(&second, "k").await, Outcome::Replayed(Ok(2))));
}

/// Checkpoints reach the next attempt; refused ones do not cost the lease.
#[tokio::test(start_paused = true)]
async fn the_next_attempt_gets_the_last_checkpoint() {
    let store = store();
    let idempotency = executor(store.clone());
    let work = async |attempt: idempotency_core::Attempt| {
        assert_eq!(attempt.checkpoint(), None);
        attempt.save_checkpoint("step 1").await.unwrap();
        let too_large = attempt.save_checkpoint(vec![0; 101]).await.unwrap_err();
        let CheckpointError::Store(error) = too_large else { panic!("{too_large}") };
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        attempt.save_checkpoint("step 2").await.unwrap();
        tokio::time::sleep(ms(4_000)).await;
        assert!(!attempt.is_lost());
        Err::<u32, _>(Refused::Passing)
    };
    let failed = idempotency.run(&key("k"), request("body"), work).await.unwrap();
    assert!(matches!(failed, Outcome::Executed(Err(Refused::Passing))));
    let work = async |attempt: idempotency_core::Attempt| {
        assert_eq!(attempt.checkpoint().unwrap(), "step 2");
        assert_eq!(attempt.first_attempt_ago(), ms(4_000));
        Ok::<_, Refused>(attempt.number().get())
    };
    let done = idempotency.run(&key("k"), request("body"), work).await.unwrap();
    assert!(matches!(done, Outcome::Executed(Ok(2))));
    let record = store.lookup(&key("k")).await.unwrap().unwrap();
    assert!(matches!(record.state, State::Completed { .. }));
}

/// A clock on which time-outs (750 ms here) take 4 s.
#[derive(Debug)]
struct Stretched(SystemClock);

impl Clock for Stretched {
    fn now(&self) -> idempotency_core::Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> std::time::Duration {
        self.0.monotonic()
    }

    fn sleep(&self, duration: std::time::Duration) -> idempotency_core::Sleep {
        self.0.sleep(if duration == ms(750) { ms(4_000) } else { duration })
    }
}

/// A clock whose first sleep beside a time-out, the pause before the second try, takes 4 s.
#[derive(Debug)]
struct LateSecondTry {
    clock: SystemClock,
    pauses: AtomicU32,
}

impl Default for LateSecondTry {
    fn default() -> Self {
        Self { clock: SystemClock::new(), pauses: AtomicU32::new(0) }
    }
}

impl Clock for LateSecondTry {
    fn now(&self) -> idempotency_core::Timestamp {
        self.clock.now()
    }

    fn monotonic(&self) -> std::time::Duration {
        self.clock.monotonic()
    }

    fn sleep(&self, duration: std::time::Duration) -> idempotency_core::Sleep {
        // pauses between tries are at most 20 ms at first; time-outs are longer
        let pause = duration <= ms(20) && self.pauses.fetch_add(1, Ordering::SeqCst) == 0;
        self.clock.sleep(if pause { ms(4_000) } else { duration })
    }
}

/// Kind of fault: renewals end with something that is not the owner (H-07). The runtime whose task waits
/// for first renewals may end before the claims of another runtime.
#[test]
fn a_claim_keeps_its_key_when_another_runtime_of_the_executor_ends() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    };
    let (ending, staying) = (runtime(), runtime());
    let idempotency = builder(store()).lease(lease(900)).build().unwrap();
    let claim = async |name| idempotency.begin(&key(name), request("body")).await.unwrap();
    let Begun::Acquired(first) = ending.block_on(claim("first")) else { panic!("not acquired") };
    let Begun::Acquired(second) = staying.block_on(claim("second")) else { panic!("not acquired") };
    drop(first);
    drop(ending);
    staying.block_on(async {
        tokio::time::sleep(ms(2_000)).await;
        assert!(matches!(claim("second").await, Begun::InProgress(_)));
        assert!(matches!(
            second.complete(idempotency_core::Answer::bytes("x")).await,
            Recorded::Stored
        ));
    });
}

/// Kind of fault: the lease runs out while the work is busy (H-07), because its renewals wait for a
/// runtime that nobody drives any more.
#[test]
fn a_claim_keeps_its_key_when_another_runtime_of_the_executor_stands_still() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (idle, driven) = (runtime(), runtime());
    let idempotency = builder(store()).lease(lease(300)).build().unwrap();
    let work = async |_| {
        tokio::time::sleep(ms(20)).await;
        Ok::<_, Refused>(1_u32)
    };
    let _done = idle.block_on(idempotency.run(&key("first"), request("body"), work)).unwrap();
    driven.block_on(async {
        let begun = idempotency.begin(&key("k"), request("body")).await.unwrap();
        let Begun::Acquired(guard) = begun else { panic!("not acquired") };
        tokio::time::sleep(ms(900)).await;
        let duplicate = run_ok(&idempotency, "k").await;
        assert!(matches!(duplicate, Outcome::InProgress(_)), "{duplicate:?}");
        assert!(!guard.attempt().is_lost());
    });
}

/// Kind of fault: renewals end and the work goes on without knowing (H-07). A store that panics, and a
/// runtime that ends before the work, end the heartbeat.
#[test]
fn work_is_told_when_its_heartbeat_is_gone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let begin = async |idempotency: idempotency_core::Idempotency| {
        let begun = idempotency.begin(&key("k"), request("body")).await.unwrap();
        let Begun::Acquired(guard) = begun else { panic!("not acquired") };
        guard
    };
    let faulty = Faulty::new(store(), |operation| {
        assert_ne!(operation, Operation::Renew, "as planned");
        Plan::Deliver
    });
    runtime().block_on(async {
        let guard = begin(builder(faulty).lease(lease(300)).build().unwrap()).await;
        eventually("the owner is told", || async { guard.attempt().is_lost() }).await;
    });
    for pause in [0, 150] {
        let ending = runtime();
        let idempotency = builder(store()).lease(lease(300)).build().unwrap();
        let guard = ending.block_on(async {
            let guard = begin(idempotency).await;
            tokio::time::sleep(ms(pause)).await;
            guard
        });
        drop(ending);
        assert!(guard.attempt().is_lost(), "after {pause} ms");
    }
}

/// Kind of fault: an unknown effect is told as none (C50). A checkpoint that a lost reply may have saved
/// is not said to be unsaved because a later try is refused.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_may_be_saved_is_not_said_to_be_unsaved() {
    let plans = vec![Plan::LoseReply, Plan::Refuse(ErrorKind::TooLarge)];
    let faulty = Faulty::for_operation(store(), Operation::Renew, plans);
    let idempotency = executor(faulty);
    let begun = idempotency.begin(&key("k"), request("body")).await.unwrap();
    let Begun::Acquired(guard) = begun else { panic!("not acquired") };
    let error = guard.attempt().save_checkpoint("x").await.unwrap_err();
    let CheckpointError::Store(error) = error else { panic!("{error}") };
    assert_eq!(error.effect(), Effect::Unknown);
}
