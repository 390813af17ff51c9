//! Random programs with time in them: every answer, every duration in it and every byte of the record are
//! those of the state machine.
//!
//! The case of the suite that runs random programs (`case/model.rs`) is for any store, in any harness, within
//! seconds: it lets pass what is brief and looks at what is decided. This one lets all deadlines come, and
//! compares how long is left until them; it wants a harness that can move time, or minutes.

mod counterexample;
mod pace;
mod request;
mod seen;
mod step;
mod trial;

use std::sync::Arc;

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use tokio::runtime::{Builder, Runtime};

pub use self::counterexample::Counterexample;
use self::{pace::Pace, step::Program, trial::judge};
use crate::{
    erased::ErasedHarness,
    failure::Halt,
    harness::Harness,
    subject::{Effort, Subject},
};

/// Random programs on a store and on the contract's state machine, side by side.
///
/// A program is up to thirty operations on one key, with pauses between them in which leases and retentions
/// end: claims, completions, renewals, releases, lookups, and, where the store has them, an operator's verbs
/// and sweeps. After each of them the answer and the record must be the machine's. A program that fails is made
/// smaller before it is shown.
///
/// Time passes in one of three ways. With a [`ManualClock`](idempotency_core::ManualClock) in the fixture,
/// deadlines are met to the millisecond. With [`Harness::age`], records are made older, and no time is lost.
/// Else the programs wait, 64 at a time: allow minutes.
///
/// Nothing depends on a machine that keeps up: a program whose answers differ while the machine stood still is
/// judged again.
///
/// ```no_run
/// # fn example(harness: impl idempotency_conformance::Harness) {
/// idempotency_conformance::Programs::new(harness).count(1_000).run().unwrap();
/// # }
/// ```
#[must_use = "nothing is done until `run`"]
pub struct Programs {
    harness: Arc<dyn ErasedHarness>,
    count: u32,
    seed: u64,
}

/// So often a program is judged before the machine is given up, which stood still each time.
const TRIES: u32 = 20;

/// So many smaller programs are tried when one fails.
const MOST_SHRINKS: u32 = 300;

impl Programs {
    /// 300 programs, by a random seed.
    pub fn new(harness: impl Harness) -> Self {
        Self { harness: Arc::new(harness), count: 300, seed: fastrand::u64(..) }
    }

    /// So many of them.
    pub fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// The same programs for the same seed. A counterexample names it.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Runs them all. Blocks the thread, with a runtime on a thread of its own: it can be called from a plain
    /// test as well as from inside of a runtime.
    ///
    /// # Errors
    /// The smallest program that was found on which store and machine differ; or there was no store.
    ///
    /// # Panics
    /// The harness or the store did, or there is no runtime to be had.
    pub fn run(self) -> Result<(), Counterexample> {
        let ended = std::thread::scope(|scope| scope.spawn(|| self.search()).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn search(&self) -> Result<(), Counterexample> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
        let fresh = Subject::fresh(Arc::clone(&self.harness), self.seed, Effort::Usual);
        let subject = runtime.block_on(fresh).map_err(|halt| self.broken(None, &halt))?;
        let pace = runtime.block_on(Pace::of(&subject)).map_err(|halt| self.broken(None, &halt))?;
        let search = Search { subject: &subject, pace: &pace, runtime: &runtime };
        search.run(self).map_err(|(program, halt)| self.broken(Some(&program), &halt))
    }

    fn broken(&self, program: Option<&Program>, halt: &Halt) -> Counterexample {
        let store = self.harness.profile().name;
        Counterexample::new(store, self.seed, program, halt)
    }
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs")
            .field("count", &self.count)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

struct Search<'s> {
    subject: &'s Subject,
    pace: &'s Pace,
    runtime: &'s Runtime,
}

impl Search<'_> {
    fn run(&self, programs: &Programs) -> Result<(), (Program, Halt)> {
        let mut bytes = [0; 32];
        for (byte, value) in bytes.iter_mut().zip(programs.seed.to_le_bytes().into_iter().cycle()) {
            *byte = value;
        }
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let strategy = step::program(self.pace);
        let mut left = programs.count;
        while left > 0 {
            let together = left.min(self.pace.together());
            left -= together;
            let trees = (0..together).map(|_| strategy.new_tree(&mut runner));
            let trees = trees.collect::<Result<Vec<_>, _>>();
            let trees = trees.unwrap_or_else(|reason| panic!("no program: {reason}"));
            let judged = trees.iter().map(|tree| self.judge(tree.current()));
            let judged = self.runtime.block_on(futures_util::future::join_all(judged));
            for (mut tree, judged) in trees.into_iter().zip(judged) {
                if let Err(halt) = judged {
                    return Err(self.shrink(&mut tree, halt));
                }
            }
        }
        Ok(())
    }

    /// The smallest program that fails, and how.
    fn shrink(&self, tree: &mut impl ValueTree<Value = Program>, halt: Halt) -> (Program, Halt) {
        let mut smallest = (tree.current(), halt);
        let mut go_on = tree.simplify();
        for _ in 0..MOST_SHRINKS {
            if !go_on {
                break;
            }
            go_on = match self.runtime.block_on(self.judge(tree.current())) {
                Ok(()) => tree.complicate(),
                Err(halt) => {
                    smallest = (tree.current(), halt);
                    tree.simplify()
                }
            };
        }
        smallest
    }

    async fn judge(&self, program: Program) -> Result<(), Halt> {
        for _ in 0..TRIES {
            if let Some(verdict) = judge(self.subject, self.pace, &program).await {
                return verdict;
            }
        }
        let expected = format!("a machine that goes on for {:?}", self.pace.slack());
        Err(Halt::fail("a program", expected, format!("one that stood still in {TRIES} tries")))
    }
}
