//! Random programs: anything, asked by anybody, in any order, by clocks that disagree within the skew
//! bound.

use proptest::prelude::*;

use super::{
    run::{Answer, apply},
    scenario::{Ask, NEW_CHECKPOINT, OLD_CHECKPOINT, Outcome, Who, moment, span},
};
use crate::{
    FinishOutcome, Record, Release, RemoveOutcome, SettleOutcome, Takeover,
    machine::{Now, Write},
};

/// One step of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Time since the step before.
    later: u64,
    /// How far the clock of the caller is behind.
    behind: u64,
    ask: Ask,
}

const SKEW: u64 = 200;

fn who() -> impl Strategy<Value = Who> {
    (0..4_u8, 1..5_u32).prop_map(|(token, attempt)| Who { token, attempt })
}

fn ask() -> impl Strategy<Value = Ask> {
    let takeover = prop_oneof![Just(Takeover::Allow), Just(Takeover::Refuse)];
    let claim = (0..4_u8, 0..8_u8, takeover).prop_map(|(token, print, takeover)| Ask::Claim {
        token,
        // mostly the same request
        fingerprint: u8::from(print == 0),
        takeover,
    });
    let complete = (who(), 0..8_u8)
        .prop_map(|(who, print)| Ask::Complete { who, fingerprint: u8::from(print == 0) });
    let checkpoint =
        prop_oneof![Just(None), Just(Some(OLD_CHECKPOINT)), Just(Some(NEW_CHECKPOINT))];
    let renew = (who(), 1..4_u64, 1..2_000_u64, checkpoint).prop_map(
        |(who, sequence, lease, checkpoint)| Ask::Renew { who, sequence, lease, checkpoint },
    );
    let said =
        prop_oneof![Just(Release::NotStarted), Just(Release::Failed), Just(Release::Unknown)];
    let release = (who(), said).prop_map(|(who, release)| Ask::Release { who, release });
    let outcome =
        prop_oneof![Just(Outcome::Completed), Just(Outcome::Failed), Just(Outcome::NotStarted)];
    let settle = (who(), outcome).prop_map(|(who, outcome)| Ask::Settle { who, outcome });
    let remove = who().prop_map(|who| Ask::Remove { who });
    prop_oneof![
        8 => claim,
        3 => complete,
        6 => renew,
        3 => release,
        1 => settle,
        1 => remove,
    ]
}

pub(super) fn program() -> impl Strategy<Value = (u64, Vec<Step>)> {
    let later = prop_oneof![
        6 => Just(0_u64),
        6 => 1..400_u64,
        3 => 600..1_000_u64,
        1 => 9_000..10_500_u64,
    ];
    let step =
        (later, 0..=SKEW, ask()).prop_map(|(later, behind, ask)| Step { later, behind, ask });
    let skew = prop_oneof![Just(0), Just(SKEW)];
    (skew, prop::collection::vec(step, 1..60))
}

/// One step as it happened.
pub(super) struct Applied<'a> {
    pub(super) ask: Ask,
    pub(super) now: Now,
    pub(super) before: Option<&'a Record>,
    pub(super) answer: Answer,
    pub(super) after: Option<&'a Record>,
}

/// Runs the program and shows each step to `check`. The callers name the attempt that is stored half
/// of the time, so that programs get somewhere.
pub(super) fn replay(
    skew: u64,
    steps: &[Step],
    mut check: impl FnMut(&Applied<'_>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut clock = 1_000_000;
    let mut stored: Option<Record> = None;
    for (index, step) in steps.iter().enumerate() {
        clock += step.later;
        let now = clock - step.behind.min(skew);
        let ask = match &stored {
            Some(record) if index % 2 == 0 => aimed(step.ask, record),
            _ => step.ask,
        };
        let (answer, write) = apply(stored.as_ref(), ask, now, skew);
        let after = written(stored.as_ref(), write);
        let applied = Applied {
            ask,
            now: Now { at: moment(now), skew_bound: span(skew) },
            before: stored.as_ref(),
            answer: answer.clone(),
            after: after.as_ref(),
        };
        check(&applied)?;
        repeat(&applied, now, skew)?;
        stored = after;
    }
    Ok(())
}

pub(super) fn written(before: Option<&Record>, write: Write) -> Option<Record> {
    match write {
        Write::Keep => before.cloned(),
        Write::Put(record) => Some(record),
    }
}

fn aimed(ask: Ask, record: &Record) -> Ask {
    let [token, ..] = *record.token.as_bytes();
    let at = Who { token, attempt: record.attempt.get() };
    let mut ask = ask;
    match &mut ask {
        Ask::Complete { who, .. }
        | Ask::Renew { who, .. }
        | Ask::Release { who, .. }
        | Ask::Settle { who, .. }
        | Ask::Remove { who } => *who = at,
        Ask::Claim { .. } | Ask::Lookup | Ask::List => {}
    }
    ask
}

/// C03, C11, C28, C50: the same again at the same moment leaves the record as it is, and answers what
/// follows from the first answer.
fn repeat(applied: &Applied<'_>, now: u64, skew: u64) -> Result<(), TestCaseError> {
    let (again, write) = apply(applied.after, applied.ask, now, skew);
    let twice = written(applied.after, write);
    prop_assert_eq!(twice.as_ref(), applied.after, "{:?} twice changes the record", applied.ask);
    let expected = match &applied.answer {
        Answer::Finish(FinishOutcome::Restored) => Answer::Finish(FinishOutcome::Done),
        Answer::Settle(SettleOutcome::Settled) => Answer::Settle(SettleOutcome::Changed),
        Answer::Remove(RemoveOutcome::Removed) => Answer::Remove(RemoveOutcome::Changed),
        same => same.clone(),
    };
    prop_assert_eq!(again, expected, "{:?} twice", applied.ask);
    Ok(())
}
