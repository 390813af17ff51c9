//! The contract, read clause by clause. Each clause is a condition over plain facts, and what follows
//! from it. No clause looks at another one; for every case exactly one must apply.

use bytes::Bytes;

use super::{
    operator_rules,
    run::Answer,
    scenario::{
        ASKED_LEASE, Ask, CLAIMED, Case, FINGERPRINTS, Kind, LEASE_END, RETENTION, SEQUENCE,
        TOKENS, Who, moment, span,
    },
};
use crate::{
    ClaimOutcome, FinishOutcome, Mismatch, Record, Release, ReleaseOutcome, ReleaseReason,
    RenewOutcome, State, Takeover,
};

/// A clause that applies, with those that say how; what it answers; what it writes, if anything.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) clauses: Vec<&'static str>,
    pub(super) answer: Answer,
    pub(super) written: Option<Record>,
}

/// All clauses that apply to `case`.
pub(super) fn verdicts(case: &Case) -> Vec<Verdict> {
    let mut rules = Rules::new(case);
    match case.ask {
        Ask::Claim { token, fingerprint, takeover } => rules.claim(token, fingerprint, takeover),
        Ask::Complete { who, fingerprint } => rules.complete(who, fingerprint),
        Ask::Renew { who, sequence, lease, checkpoint } => {
            rules.renew(who, sequence, lease, checkpoint);
        }
        Ask::Release { who, release } => rules.release(who, release),
        Ask::Lookup | Ask::List | Ask::Settle { .. } | Ask::Remove { .. } => {
            operator_rules::apply(&mut rules);
        }
    }
    rules.found
}

pub(super) struct Rules<'a> {
    pub(super) case: &'a Case,
    /// C30: past its retention, and by the skew bound (C33).
    pub(super) past: bool,
    /// Nothing that counts: nothing there, past its retention, or an unused key.
    pub(super) gone: bool,
    /// C33: over by more than the skew bound.
    pub(super) lease_over: bool,
    found: Vec<Verdict>,
}

impl<'a> Rules<'a> {
    fn new(case: &'a Case) -> Self {
        let past = case.kind != Kind::Absent && case.now > case.retention_end() + case.skew;
        Self {
            case,
            past,
            gone: past || matches!(case.kind, Kind::Absent | Kind::Unused),
            lease_over: case.now > LEASE_END + case.skew,
            found: Vec::new(),
        }
    }

    pub(super) fn when(
        &mut self,
        applies: bool,
        clauses: &[&'static str],
        answer: impl FnOnce(&Self) -> Answer,
        written: impl FnOnce(&Self) -> Option<Record>,
    ) {
        if applies {
            let (answer, written) = (answer(self), written(self));
            let mut clauses = clauses.to_vec();
            clauses.extend(self.past.then_some("C30"));
            clauses.extend(written.is_some().then_some("C31"));
            self.found.push(Verdict { clauses, answer, written });
        }
    }

    pub(super) fn is(&self, kind: Kind) -> bool {
        !self.gone && self.case.kind == kind
    }

    fn is_released(&self) -> bool {
        self.is(Kind::Failed) || self.is(Kind::Unknown)
    }

    /// Section 3: token AND attempt.
    pub(super) fn names(&self, who: Who) -> bool {
        who.token == TOKENS[0] && who.attempt == self.case.attempt
    }

    fn claim(&mut self, asked: u8, print: u8, takeover: Takeover) {
        let own = asked == TOKENS[0];
        let remembered = self.case.kind == Kind::Unused && !self.past;
        let same = print == FINGERPRINTS[0];
        let lives = !self.gone && same;
        let lapsed = self.is(Kind::Unknown) || (self.is(Kind::InProgress) && self.lease_over);
        let allow = takeover == Takeover::Allow;
        let first = |rules: &Self| rules.acquired(1, ASKED_LEASE, None, rules.case.now);
        let begun = |rules: &Self| rules.begun(asked, print, 1, None);
        let next = |rules: &Self| {
            let (case, number) = (rules.case, rules.case.attempt + 1);
            rules.acquired(number, ASKED_LEASE, case.checkpoint, case.first_claimed())
        };
        let taken =
            |rules: &Self| rules.begun(asked, print, rules.case.attempt + 1, rules.case.checkpoint);
        let spent = |_: &Self| Answer::TokenSpent;

        self.when(self.gone && !remembered, &["C01", "C09"], first, begun);
        self.when(remembered && !own, &["C25", "C01", "C09"], first, begun);
        self.when(remembered && own, &["C29"], spent, nothing);
        let mismatch = |_: &Self| {
            let stored_version = FINGERPRINTS[0];
            Answer::Claim(ClaimOutcome::Mismatch(Mismatch { stored_version }))
        };
        self.when(!self.gone && !same, &["C06"], mismatch, nothing);
        let replay = |rules: &Self| rules.replay();
        let completed = lives && self.is(Kind::Completed);
        self.when(completed, &["C05"], replay, nothing);
        let again = |rules: &Self| {
            let case = rules.case;
            let remaining = LEASE_END.saturating_sub(case.now);
            rules.acquired(case.attempt, remaining, case.checkpoint, case.first_claimed())
        };
        let in_progress = lives && self.is(Kind::InProgress);
        self.when(in_progress && own, &["C03", "C09"], again, nothing);
        let released = lives && self.is_released();
        self.when(released && own, &["C03"], spent, nothing);
        let running = |rules: &Self| rules.running();
        let live = in_progress && !own && !self.lease_over;
        self.when(live, &["C04"], running, nothing);
        let failed = lives && !own && self.is(Kind::Failed);
        self.when(failed, &["C07", "C09"], next, taken);
        let over = lives && !own && lapsed;
        self.when(over && allow, &["C07", "C09"], next, taken);
        let abandoned = |rules: &Self| rules.abandoned();
        self.when(over && !allow, &["C08"], abandoned, nothing);
    }

    fn complete(&mut self, who: Who, print: u8) {
        let own = self.names(who) && print == FINGERPRINTS[0];
        let finish = |outcome| move |_: &Self| Answer::Finish(outcome);
        let (done, lost) = (finish(FinishOutcome::Done), finish(FinishOutcome::Lost));
        let kept = |rules: &Self| {
            let first = rules.case.first_claimed();
            Some(rules.completed(who, print, first, CLAIMED))
        };
        let anew = |rules: &Self| {
            let now = rules.case.now;
            Some(rules.completed(who, print, now, now))
        };
        let restored = finish(FinishOutcome::Restored);
        self.when(self.gone, &["C14"], restored, anew);
        self.when(!self.gone && !own, &["C12"], lost, nothing);
        let holds = own && self.is(Kind::InProgress);
        self.when(own && self.is(Kind::Completed), &["C11"], done, nothing);
        self.when(holds && !self.lease_over, &["C10"], done, kept);
        let late = (holds && self.lease_over) || (own && self.is_released());
        self.when(late, &["C13"], done, kept);
    }

    fn renew(&mut self, who: Who, sequence: u64, lease: u64, checkpoint: Option<&'static [u8]>) {
        let now = self.case.now;
        let holds = self.is(Kind::InProgress) && self.names(who);
        let held = |lease_end: u64| {
            let lease_remaining = span(lease_end.saturating_sub(now));
            move |_: &Self| Answer::Renew(RenewOutcome::Held { lease_remaining })
        };
        let lost = |_: &Self| Answer::Renew(RenewOutcome::Lost);
        self.when(!holds, &["C21"], lost, nothing);
        let late_copy = holds && sequence < SEQUENCE;
        self.when(late_copy, &["C22"], held(LEASE_END), nothing);
        let lease_end = LEASE_END.max(now + lease);
        let longer = |rules: &Self| {
            let kept = checkpoint.or(rules.case.checkpoint);
            Some(Record {
                expires_at: moment(lease_end + RETENTION),
                state: State::InProgress {
                    lease_until: moment(lease_end),
                    sequence,
                    checkpoint: kept.map(Bytes::from_static),
                },
                ..rules.case.stored()?
            })
        };
        let applies = holds && sequence >= SEQUENCE;
        self.when(applies, &["C20"], held(lease_end), longer);
    }

    fn release(&mut self, who: Who, release: Release) {
        let own = self.names(who);
        let holds = own && self.is(Kind::InProgress);
        let said = |outcome| move |_: &Self| Answer::Release(outcome);
        let (released, lost) = (said(ReleaseOutcome::Released), said(ReleaseOutcome::Lost));
        let repeated = self.gone || (own && self.is_released());
        self.when(repeated, &["C28"], released, nothing);
        let others = !self.gone && (!own || self.is(Kind::Completed));
        self.when(others, &["C27"], lost, nothing);
        let not_started = release == Release::NotStarted;
        let freed = |rules: &Self| {
            Some(Record {
                expires_at: moment(LEASE_END.max(rules.case.now)),
                state: State::Unused,
                ..rules.case.stored()?
            })
        };
        let first = self.case.attempt == 1;
        self.when(holds && not_started && first, &["C25", "C29"], released, freed);
        let failed = |rules: &Self| rules.released(ReleaseReason::Failed);
        let later = holds && not_started && !first;
        self.when(later, &["C25"], released, failed);
        let known = holds && release == Release::Failed;
        self.when(known, &["C26"], released, failed);
        let unknown = |rules: &Self| rules.released(ReleaseReason::Unknown);
        let may_have = holds && release == Release::Unknown;
        self.when(may_have, &["C26"], released, unknown);
    }
}

pub(super) fn nothing(_: &Rules<'_>) -> Option<Record> {
    None
}
