//! Asks the machine, and collects its answers in one type.

use std::num::NonZeroU64;

use bytes::Bytes;

use super::scenario::{
    ASKED_LEASE, ASKED_RETENTION, Ask, Case, NEW_RESPONSE, Outcome, Who, attempt, fingerprint,
    moment, span, token,
};
use crate::{
    ClaimOutcome, ClaimRequest, CompleteRequest, Effect, ErrorKind, FinishOutcome, IdempotencyKey,
    Lease, ListState, Record, ReleaseOutcome, ReleaseRequest, RemoveOutcome, RenewOutcome,
    RenewRequest, Retention, SeenClaim, SettleOutcome, Settlement,
    machine::{self, Decision, Now, Write},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Claim(ClaimOutcome),
    TokenSpent,
    Finish(FinishOutcome),
    Renew(RenewOutcome),
    Release(ReleaseOutcome),
    Lookup(Option<Record>),
    List(Option<ListState>),
    Settle(SettleOutcome),
    Remove(RemoveOutcome),
}

/// The answer to `case` and what was written.
pub(super) fn run(case: &Case) -> (Answer, Write) {
    apply(case.stored().as_ref(), case.ask, case.now, case.skew)
}

/// The answer to `ask` at `now` and what is written over `stored`.
pub(super) fn apply(stored: Option<&Record>, ask: Ask, now: u64, skew: u64) -> (Answer, Write) {
    let key = &IdempotencyKey::new("scope", "key").unwrap();
    let now = Now { at: moment(now), skew_bound: span(skew) };
    let retention = Retention::new(span(ASKED_RETENTION)).unwrap();
    match ask {
        Ask::Claim { token: name, fingerprint: print, takeover } => claimed(
            stored,
            &ClaimRequest {
                key,
                fingerprint: fingerprint(print),
                token: token(name),
                lease: Lease::new(span(ASKED_LEASE)).unwrap(),
                retention,
                takeover,
            },
            now,
        ),
        Ask::Complete { who, fingerprint: print } => {
            let request = CompleteRequest {
                key,
                token: token(who.token),
                attempt: attempt(who.attempt),
                fingerprint: fingerprint(print),
                response: Bytes::from_static(NEW_RESPONSE),
                retention,
            };
            with(machine::complete(stored, &request, now), Answer::Finish)
        }
        Ask::Renew { who, sequence, lease, checkpoint } => {
            let request = RenewRequest {
                key,
                token: token(who.token),
                attempt: attempt(who.attempt),
                sequence: NonZeroU64::new(sequence).unwrap(),
                lease: Lease::new(span(lease)).unwrap(),
                checkpoint: checkpoint.map(Bytes::from_static),
            };
            with(machine::renew(stored, &request, now), Answer::Renew)
        }
        Ask::Release { who, release } => {
            let request = ReleaseRequest {
                key,
                token: token(who.token),
                attempt: attempt(who.attempt),
                release,
            };
            with(machine::release(stored, &request, now), Answer::Release)
        }
        Ask::Lookup => {
            let found = machine::lookup(stored, now).cloned();
            (Answer::Lookup(found), Write::Keep)
        }
        Ask::List => {
            let state = stored.and_then(|record| machine::list_state(record, now));
            (Answer::List(state), Write::Keep)
        }
        Ask::Settle { who, outcome } => {
            let settlement = settlement(outcome, retention);
            let decision = machine::settle(stored, seen(who), &settlement, now);
            with(decision, Answer::Settle)
        }
        Ask::Remove { who } => with(machine::remove(stored, seen(who), now), Answer::Remove),
    }
}

fn claimed(stored: Option<&Record>, request: &ClaimRequest<'_>, now: Now) -> (Answer, Write) {
    match machine::claim(stored, request, now) {
        Ok(decision) => with(decision, Answer::Claim),
        Err(error) => {
            assert_eq!((error.kind(), error.effect()), (ErrorKind::TokenSpent, Effect::None));
            (Answer::TokenSpent, Write::Keep)
        }
    }
}

fn settlement(outcome: Outcome, retention: Retention) -> Settlement {
    match outcome {
        Outcome::Completed => {
            Settlement::Completed { response: Bytes::from_static(NEW_RESPONSE), retention }
        }
        Outcome::Failed => Settlement::Failed,
        Outcome::NotStarted => Settlement::NotStarted,
    }
}

fn seen(who: Who) -> SeenClaim {
    SeenClaim { token: token(who.token), attempt: attempt(who.attempt) }
}

fn with<A>(decision: Decision<A>, answer: impl Fn(A) -> Answer) -> (Answer, Write) {
    (answer(decision.answer), decision.write)
}
