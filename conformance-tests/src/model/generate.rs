use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};
use tokio::sync::mpsc;

use super::program::{Gift, Number, Program, Span, Step};

/// How often a failing program is made smaller.
const MOST_SHRINKS: u32 = 300;

/// What a program came to: whether it found nothing, and else what.
pub(crate) type Tried = Result<(), String>;

/// Asks for `count` random programs to be tried, the same for the same seed, and for smaller ones as
/// soon as one of them fails; gives the smallest that fails. Blocks its thread.
pub(crate) fn search(
    seed: u64,
    count: u32,
    ask: &mpsc::Sender<Program>,
    tried: mpsc::Receiver<Tried>,
) -> Option<Program> {
    let mut bytes = [0; 32];
    for (byte, value) in bytes.iter_mut().zip(seed.to_le_bytes().into_iter().cycle()) {
        *byte = value;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config {
        cases: count,
        failure_persistence: None,
        max_shrink_iters: MOST_SHRINKS,
        ..Config::default()
    };
    let tried = std::cell::RefCell::new(tried);
    let found = TestRunner::new_with_rng(config, rng).run(&program(), |program| {
        let gone = |_| TestCaseError::reject("nobody tries it");
        ask.blocking_send(program).map_err(gone)?;
        match tried.borrow_mut().blocking_recv() {
            Some(Ok(())) | None => Ok(()),
            Some(Err(failure)) => Err(TestCaseError::fail(failure)),
        }
    });
    match found {
        Err(TestError::Fail(_, smallest)) => Some(smallest),
        Err(TestError::Abort(_)) | Ok(()) => None,
    }
}

fn program() -> impl Strategy<Value = Program> {
    proptest::collection::vec(step(), 1..14)
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![3 => Just(Span::Long), 1 => Just(Span::Brief)]
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![4 => Just(Number::Current), 1 => (1_u8..4).prop_map(Number::Is)]
}

fn gift() -> impl Strategy<Value = Gift> {
    prop_oneof![Just(Gift::NotStarted), Just(Gift::Failed), Just(Gift::Unknown)]
}

/// Mostly the same request: a mismatch is checked soon enough.
fn request() -> impl Strategy<Value = u8> {
    prop_oneof![9 => Just(0_u8), 1 => Just(1)]
}

fn step() -> impl Strategy<Value = Step> {
    // mostly the same one: programs of one owner go further
    let who = || prop_oneof![3 => Just(0_u8), 1 => Just(1), 1 => Just(2)];
    prop_oneof![
        4 => (who(), request(), span(), span(), any::<bool>()).prop_map(
            |(who, request, lease, retention, refuse)| {
                Step::Claim { who, request, lease, retention, refuse }
            }
        ),
        2 => (who(), number(), request(), 0_u8..3, span()).prop_map(
            |(who, attempt, request, response, retention)| {
                Step::Complete { who, attempt, request, response, retention }
            }
        ),
        3 => (who(), number(), 1_u8..5, span(), proptest::option::of(0_u8..3)).prop_map(
            |(who, attempt, sequence, lease, checkpoint)| {
                Step::Renew { who, attempt, sequence, lease, checkpoint }
            }
        ),
        3 => (who(), number(), gift())
            .prop_map(|(who, attempt, release)| Step::Release { who, attempt, release }),
        1 => Just(Step::Lookup),
    ]
}
