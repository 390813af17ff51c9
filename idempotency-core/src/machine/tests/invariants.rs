//! What never happens, whatever the program.

use proptest::prelude::*;

use super::{
    programs::{program, replay, written},
    run::{Answer, apply},
    scenario::{Ask, Case, FINGERPRINTS, Kind, MOVED},
};
use crate::{
    ClaimOutcome, FinishOutcome, Release, ReleaseOutcome, RemoveOutcome, RenewOutcome,
    SettleOutcome, State, Takeover, machine::lookup, testing::random_cases,
};

fn is_operator(ask: Ask) -> bool {
    matches!(ask, Ask::Settle { .. } | Ask::Remove { .. })
}

proptest! {
    #![proptest_config(random_cases(500))]

    #[test]
    fn an_attempt_number_never_decreases_while_its_record_lives((skew, steps) in program()) {
        replay(skew, &steps, |step| {
            let (before, after) = (lookup(step.before, step.now), lookup(step.after, step.now));
            if let (Some(before), Some(after)) = (before, after) {
                prop_assert!(after.attempt >= before.attempt, "{:?}", step.ask);
                let taken_over = after.token != before.token;
                prop_assert_eq!(taken_over, after.attempt > before.attempt, "{:?}", step.ask);
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_completed_record_stays_completed_until_its_retention_ends((skew, steps) in program()) {
        replay(skew, &steps, |step| {
            let completed = lookup(step.before, step.now)
                .filter(|record| matches!(record.state, State::Completed { .. }));
            if completed.is_some() && !matches!(step.ask, Ask::Remove { .. }) {
                prop_assert_eq!(step.after, completed, "{:?}", step.ask);
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_lease_and_its_record_never_become_shorter((skew, steps) in program()) {
        replay(skew, &steps, |step| {
            let (Some(before), Some(after)) = (step.before, step.after) else {
                return Ok(());
            };
            let same = before.token == after.token && before.attempt == after.attempt;
            if let (
                State::InProgress { lease_until: old, .. },
                State::InProgress { lease_until: new, .. },
            ) = (&before.state, &after.state)
                && same
                && lookup(step.before, step.now).is_some()
            {
                prop_assert!(new >= old && after.expires_at >= before.expires_at, "{:?}", step.ask);
            }
            Ok(())
        })?;
    }

    #[test]
    fn nobody_is_acquired_while_the_lease_of_another_is_live((skew, steps) in program()) {
        replay(skew, &steps, |step| {
            let live = lookup(step.before, step.now).filter(|record| {
                matches!(record.state, State::InProgress { lease_until, .. }
                    if step.now.at.as_unix_millis() <= lease_until.as_unix_millis() + skew)
            });
            if let (Some(record), Answer::Claim(ClaimOutcome::Acquired(acquired))) =
                (live, &step.answer)
            {
                prop_assert_eq!(acquired.attempt, record.attempt);
                prop_assert_eq!(step.after, Some(record));
            }
            Ok(())
        })?;
    }

    #[test]
    fn who_does_not_hold_changes_nothing((skew, steps) in program()) {
        replay(skew, &steps, |step| {
            let (Ask::Complete { who, .. } | Ask::Renew { who, .. } | Ask::Release { who, .. }) =
                step.ask
            else {
                return Ok(());
            };
            if let Some(record) = lookup(step.before, step.now) {
                let named = record.token.as_bytes() == &[who.token; 16]
                    && record.attempt.get() == who.attempt;
                if !named {
                    prop_assert_eq!(step.after, step.before, "{:?}", step.ask);
                    let lost = matches!(
                        step.answer,
                        Answer::Finish(FinishOutcome::Lost)
                            | Answer::Renew(RenewOutcome::Lost)
                            | Answer::Release(ReleaseOutcome::Lost)
                    );
                    prop_assert!(lost, "{:?} answers {:?}", step.ask, step.answer);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_refuses_to_change_writes_nothing((skew, steps) in program()) {
        replay(skew, &steps, |step| {
            let refused = matches!(
                step.answer,
                Answer::TokenSpent
                    | Answer::Claim(
                        ClaimOutcome::Replay(_)
                            | ClaimOutcome::InProgress(_)
                            | ClaimOutcome::Mismatch(_)
                            | ClaimOutcome::Abandoned(_)
                    )
                    | Answer::Settle(SettleOutcome::StillRunning | SettleOutcome::Changed)
                    | Answer::Remove(RemoveOutcome::Changed)
            );
            if refused {
                prop_assert_eq!(step.after, step.before, "{:?}", step.ask);
            }
            if !is_operator(step.ask) && step.before.is_some() {
                // only an operator or an own NotStarted frees a key
                let freed = lookup(step.before, step.now).is_some()
                    && lookup(step.after, step.now).is_none();
                let not_started = matches!(
                    step.ask,
                    Ask::Release { release: Release::NotStarted, .. }
                );
                prop_assert!(!freed || not_started, "{:?} frees the key", step.ask);
            }
            Ok(())
        })?;
    }

    /// C02: of claims with different tokens, in any order and whatever was there, at most one is
    /// acquired; exactly one when the key can be had.
    #[test]
    fn exactly_one_of_many_claims_is_acquired(
        tokens in Just((10..40_u8).collect::<Vec<_>>()).prop_shuffle(),
        kind in prop_oneof![
            Just(Kind::Absent),
            Just(Kind::Failed),
            Just(Kind::Unknown),
            Just(Kind::Completed),
            Just(Kind::Unused)
        ],
    ) {
        let case = Case {
            kind,
            attempt: 1,
            checkpoint: None,
            skew: 0,
            now: MOVED + 1,
            ask: Ask::Lookup,
        };
        let mut stored = case.stored();
        let mut acquired = Vec::new();
        for &token in &tokens {
            let fingerprint = FINGERPRINTS[0];
            let takeover = Takeover::Allow;
            let ask = Ask::Claim { token, fingerprint, takeover };
            let (answer, write) = apply(stored.as_ref(), ask, case.now, case.skew);
            stored = written(stored.as_ref(), write);
            if matches!(answer, Answer::Claim(ClaimOutcome::Acquired(_))) {
                acquired.push(token);
            }
        }
        let expected = if kind == Kind::Completed { &[][..] } else { &tokens[..1] };
        prop_assert_eq!(acquired, expected);
    }
}
