//! Lookup and the operator's verbs. The contract names no clause for settle, remove and list; they are
//! listed here under their own names.

use super::{
    oracle::{Rules, nothing},
    run::Answer,
    scenario::{Ask, CLAIMED, FINGERPRINTS, Kind, Outcome, RETENTION, Who, moment},
};
use crate::{ListState, Record, ReleaseReason, RemoveOutcome, SettleOutcome, State};

pub(super) fn apply(rules: &mut Rules<'_>) {
    match rules.case.ask {
        Ask::Lookup => {
            let found = |rules: &Rules<'_>| Answer::Lookup(rules.case.stored());
            rules.when(!rules.gone, &["lookup"], found, nothing);
            let none = |_: &Rules<'_>| Answer::Lookup(None);
            rules.when(rules.gone, &["lookup"], none, nothing);
        }
        Ask::List => list(rules),
        Ask::Settle { who, outcome } => settle(rules, who, outcome),
        Ask::Remove { who } => remove(rules, who),
        Ask::Claim { .. } | Ask::Complete { .. } | Ask::Renew { .. } | Ask::Release { .. } => {}
    }
}

fn abandoned(rules: &Rules<'_>) -> bool {
    rules.is(Kind::Unknown) || (rules.is(Kind::InProgress) && rules.lease_over)
}

fn list(rules: &mut Rules<'_>) {
    let shown = |state| move |_: &Rules<'_>| Answer::List(state);
    rules.when(rules.gone, &["list"], shown(None), nothing);
    let live = rules.is(Kind::InProgress) && !rules.lease_over;
    for (applies, state) in [
        (live, ListState::InProgress),
        (abandoned(rules), ListState::Abandoned),
        (rules.is(Kind::Failed), ListState::Failed),
        (rules.is(Kind::Completed), ListState::Completed),
    ] {
        rules.when(applies, &["list"], shown(Some(state)), nothing);
    }
}

fn settle(rules: &mut Rules<'_>, who: Who, outcome: Outcome) {
    let said = |outcome| move |_: &Rules<'_>| Answer::Settle(outcome);
    let seen = !rules.gone && rules.names(who);
    let changed = !seen || rules.is(Kind::Failed) || rules.is(Kind::Completed);
    rules.when(changed, &["settle"], said(SettleOutcome::Changed), nothing);
    let live = seen && rules.is(Kind::InProgress) && !rules.lease_over;
    rules.when(live, &["settle"], said(SettleOutcome::StillRunning), nothing);
    let settled = |rules: &Rules<'_>| match outcome {
        Outcome::Completed => {
            let first = rules.case.first_claimed();
            Some(rules.completed(who, FINGERPRINTS[0], first, CLAIMED))
        }
        Outcome::Failed => rules.released(ReleaseReason::Failed),
        Outcome::NotStarted => unused(rules),
    };
    let applies = seen && abandoned(rules);
    rules.when(applies, &["settle"], said(SettleOutcome::Settled), settled);
}

fn remove(rules: &mut Rules<'_>, who: Who) {
    let said = |outcome| move |_: &Rules<'_>| Answer::Remove(outcome);
    let seen = !rules.gone && rules.names(who);
    rules.when(!seen, &["remove"], said(RemoveOutcome::Changed), nothing);
    rules.when(seen, &["remove"], said(RemoveOutcome::Removed), unused);
}

/// The key is unused; the token is remembered for the retention.
fn unused(rules: &Rules<'_>) -> Option<Record> {
    Some(Record {
        expires_at: moment(rules.case.now + RETENTION),
        state: State::Unused,
        ..rules.case.stored()?
    })
}
