//! Every case, judged by the oracle.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    oracle::verdicts,
    run::run,
    scenario::{
        Ask, CLAIMED, Case, FINGERPRINTS, Kind, LEASE_END, MOVED, NEW_CHECKPOINT, OLD_CHECKPOINT,
        Outcome, SEQUENCE, TOKENS, Who, moment, span,
    },
};
use crate::{
    Release, Takeover,
    machine::{Now, Write, is_expired, is_unsettled},
};

const KINDS: [Kind; 6] =
    [Kind::Absent, Kind::InProgress, Kind::Failed, Kind::Unknown, Kind::Completed, Kind::Unused];
const RELEASES: [Release; 3] = [Release::NotStarted, Release::Failed, Release::Unknown];
const OUTCOMES: [Outcome; 3] = [Outcome::Completed, Outcome::Failed, Outcome::NotStarted];
/// The clauses that one decision can show. C02 needs several; see the programs.
const CLAUSES: [&str; 24] = [
    "C01", "C03", "C04", "C05", "C06", "C07", "C08", "C09", "C10", "C11", "C12", "C13", "C14",
    "C20", "C21", "C22", "C25", "C26", "C27", "C28", "C29", "C30", "C31", "lookup",
];

#[test]
fn every_case_is_answered_and_written_as_exactly_one_clause_says() {
    let mut count = 0;
    let mut exercised = BTreeMap::<&str, u32>::new();
    for case in cases() {
        let verdicts = verdicts(&case);
        let [verdict] = verdicts.as_slice() else {
            panic!("{case:#?}\nis decided by {verdicts:#?}");
        };
        let (answer, write) = run(&case);
        let written = match write {
            Write::Keep => None,
            Write::Put(record) => Some(record),
        };
        let clauses = &verdict.clauses;
        assert_eq!(answer, verdict.answer, "answer by {clauses:?} of {case:#?}");
        assert_eq!(written, verdict.written, "record by {clauses:?} of {case:#?}");
        count += 1;
        for clause in clauses {
            *exercised.entry(clause).or_default() += 1;
        }
    }
    assert!(count >= 55_000, "only {count} cases");
    for clause in CLAUSES {
        let times = exercised.get(clause).copied().unwrap_or_default();
        assert!(times >= 10, "{clause} decided only {times} cases");
    }
}

#[test]
fn expiry_and_what_an_expiry_loses_are_told_apart() {
    for case in cases() {
        let Some(record) = case.stored() else {
            continue;
        };
        let now = Now { at: moment(case.now), skew_bound: span(case.skew) };
        let past = case.now > case.retention_end() + case.skew;
        assert_eq!(is_expired(&record, now), past, "C30, C55: {case:#?}");
        let unsettled = matches!(case.kind, Kind::InProgress | Kind::Unknown);
        assert_eq!(is_unsettled(&record), unsettled, "C55: {case:#?}");
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in KINDS {
        for attempt in [1, 3] {
            for checkpoint in [None, Some(OLD_CHECKPOINT)] {
                for skew in [0, 200] {
                    let case = Case { kind, attempt, checkpoint, skew, now: 0, ask: Ask::Lookup };
                    for now in moments(&case) {
                        cases.extend(asks(attempt).map(|ask| Case { now, ask, ..case }));
                    }
                }
            }
        }
    }
    cases
}

/// Before, at and one millisecond after each deadline, with and without the skew bound; soon after the
/// record was written and long after all; with skew also by a clock that is behind the writer's.
fn moments(case: &Case) -> BTreeSet<u64> {
    let mut moments = BTreeSet::from([MOVED + 10, LEASE_END + 10_000_000]);
    for deadline in [LEASE_END, case.retention_end()] {
        for deadline in [deadline, deadline + case.skew] {
            moments.extend([deadline - 1, deadline, deadline + 1]);
        }
    }
    if case.skew > 0 {
        moments.insert(CLAIMED - case.skew);
    }
    moments
}

fn asks(attempt: u32) -> impl Iterator<Item = Ask> {
    let attempts = BTreeSet::from([1, attempt, attempt + 1]);
    let pairs = TOKENS
        .into_iter()
        .flat_map(move |token| {
            let attempts = attempts.clone();
            attempts.into_iter().map(move |attempt| Who { token, attempt })
        })
        .collect::<Vec<_>>();
    let mut asks = vec![Ask::Lookup, Ask::List];
    for token in TOKENS {
        for fingerprint in FINGERPRINTS {
            asks.extend([Takeover::Allow, Takeover::Refuse].map(|takeover| Ask::Claim {
                token,
                fingerprint,
                takeover,
            }));
        }
    }
    for who in pairs {
        asks.extend(FINGERPRINTS.map(|fingerprint| Ask::Complete { who, fingerprint }));
        asks.extend(RELEASES.map(|release| Ask::Release { who, release }));
        asks.extend(OUTCOMES.map(|outcome| Ask::Settle { who, outcome }));
        asks.push(Ask::Remove { who });
        for sequence in [SEQUENCE - 1, SEQUENCE, SEQUENCE + 1] {
            for lease in [500, 5_000] {
                asks.extend([None, Some(NEW_CHECKPOINT)].map(|checkpoint| Ask::Renew {
                    who,
                    sequence,
                    lease,
                    checkpoint,
                }));
            }
        }
    }
    asks.into_iter()
}
