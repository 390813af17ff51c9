//! Random faults, seeded: owners, duplicates, stalls, and a network that loses, delays, repeats and
//! delivers late. The rules are checked against what really ran.

use std::sync::{Arc, Mutex};

use idempotency_core::{Attempt, ErrorKind, Idempotency, OnDuplicate, Operation, Outcome};
use proptest::prelude::*;
use tokio::time::Instant;

use crate::support::*;

const LEASE: u64 = 3_000;

/// Everything that really ran under the one key.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<Execution>>>);

struct Execution {
    attempt: Attempt,
    started: Instant,
    ended: bool,
}

impl Ledger {
    fn start(&self, attempt: Attempt) -> usize {
        let mut executions = self.0.lock().unwrap();
        for earlier in executions.iter().filter(|e| !e.ended) {
            assert!(
                earlier.attempt.is_lost(),
                "attempt {} starts within the live lease of {}, which started {:?} ago",
                attempt.number(),
                earlier.attempt.number(),
                earlier.started.elapsed(),
            );
        }
        if let Some(last) = executions.last() {
            assert!(
                attempt.number() > last.attempt.number(),
                "a started key was freed: {} after {}",
                attempt.number(),
                last.attempt.number(),
            );
        }
        executions.push(Execution { attempt, started: Instant::now(), ended: false });
        executions.len() - 1
    }

    fn end(&self, index: usize) {
        self.0.lock().unwrap()[index].ended = true;
    }

    /// The numbers of all attempts that ran.
    fn attempts(&self) -> Vec<u32> {
        self.0.lock().unwrap().iter().map(|e| e.attempt.number().get()).collect()
    }
}

/// Ends an execution also when it is dropped: then it can have no effect any more.
struct Running<'a>(&'a Ledger, usize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

fn plan(random: &mut fastrand::Rng, faults: u8) -> Plan {
    if random.u8(0..100) >= faults {
        return Plan::Deliver;
    }
    let after = ms(random.u64(0..3 * LEASE));
    match random.u8(0..7) {
        0 => Plan::Delay(ms(random.u64(0..1_000))),
        1 => Plan::LoseRequest,
        2 => Plan::LoseReply,
        3 => Plan::Hang,
        4 => Plan::ArriveLate(after),
        5 => Plan::ArriveTwice(after),
        _ => Plan::Refuse(ErrorKind::Unavailable),
    }
}

/// One client: tries until it has an answer, is sometimes cancelled, works for a random time.
///
/// Answers what it was told, and whether that was a replay.
async fn client(idempotency: Idempotency, ledger: Ledger, seed: u64) -> Option<(u32, bool)> {
    let key = key("k");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..40 {
        let (work_takes, fails) = (ms(random.u64(0..2 * LEASE)), random.u8(0..4) == 0);
        let work = async |attempt: Attempt| {
            let number = attempt.number().get();
            let running = Running(&ledger, ledger.start(attempt.clone()));
            tokio::select! {
                () = tokio::time::sleep(work_takes) => {}
                () = attempt.lost() => return Err(Refused::Perhaps),
            }
            drop(running);
            if fails { Err(Refused::Passing) } else { Ok(number) }
        };
        let patience = if random.u8(0..4) == 0 { random.u64(0..LEASE) } else { 60_000 };
        let run = idempotency.run(&key, request("body"), work);
        match tokio::time::timeout(ms(patience), run).await {
            Ok(Ok(Outcome::Executed(Ok(answer)))) => return Some((answer, false)),
            Ok(Ok(Outcome::Replayed(Ok(answer)))) => return Some((answer, true)),
            Ok(Ok(Outcome::Mismatch(_) | Outcome::NotKept(_))) => panic!("a wrong answer"),
            Ok(_) | Err(_) => {}
        }
        tokio::time::sleep(ms(random.u64(0..LEASE))).await;
    }
    None
}

/// Four clients under one key, then a quiet end.
async fn simulate(seed: u64, faults: u8, wait: bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    fastrand::seed(random.u64(..));
    let (ledger, store) = (Ledger::default(), store());
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut random = random.fork();
            let seed = random.u64(..);
            let network = Faulty::new(store.clone(), move |_: Operation| plan(&mut random, faults));
            let on_duplicate =
                if wait { OnDuplicate::Wait { timeout: ms(5_000) } } else { OnDuplicate::Reject };
            let idempotency = builder(network).on_duplicate(on_duplicate).build().unwrap();
            tokio::spawn(client(idempotency, ledger.clone(), seed))
        })
        .collect();
    let mut answers = Vec::new();
    for client in clients {
        answers.extend(client.await.unwrap());
    }
    // the network heals: one more retry gets the answer that is stored, or runs and is told
    tokio::time::sleep(ms(10 * LEASE)).await;
    let ran = ledger.attempts();
    match run_ok(&executor(store), "k").await {
        Outcome::Replayed(Ok(stored)) => {
            assert!(ran.contains(&stored), "{stored} is the answer of none of {ran:?}");
            let replayed = answers.iter().filter(|(_, replayed)| *replayed);
            assert!(replayed.clone().all(|(answer, _)| *answer == stored), "{answers:?} {stored}");
        }
        Outcome::Executed(Ok(attempt)) => {
            assert!(ran.iter().all(|earlier| *earlier < attempt), "{attempt} after {ran:?}");
            assert!(!answers.iter().any(|(_, replayed)| *replayed), "a stored answer is gone");
        }
        other => panic!("not settled: {other:?}"),
    }
}

fn in_paused_time(simulation: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(simulation);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: count(150, 3_000),
        ..ProptestConfig::default()
    })]

    /// Never two executions within a live lease, never a freed key after the work has started.
    #[test]
    fn no_fault_runs_a_key_twice_within_a_live_lease(
        seed in any::<u64>(),
        faults in 0_u8..80,
        wait in any::<bool>(),
    ) {
        in_paused_time(simulate(seed, faults, wait));
    }
}

/// The same seed gives the same run.
#[test]
fn a_simulation_can_be_repeated() {
    let trace = |seed| {
        let ledger = Ledger::default();
        let inner = ledger.clone();
        in_paused_time(async move {
            let store = store();
            let mut random = fastrand::Rng::with_seed(seed);
            fastrand::seed(seed);
            let faulty = Faulty::new(store, move |_: Operation| plan(&mut random, 50));
            let idempotency = executor(faulty);
            let _answer = client(idempotency, inner.clone(), seed).await;
        });
        let executions = ledger.0.lock().unwrap();
        executions.iter().map(|e| e.attempt.number().get()).collect::<Vec<_>>()
    };
    for seed in 0..20 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
}
