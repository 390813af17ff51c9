//! What the clauses answer and write, built from plain numbers.

use bytes::Bytes;

use super::{
    oracle::Rules,
    run::Answer,
    scenario::{
        ASKED_LEASE, ASKED_RETENTION, CLAIMED, Kind, LEASE_END, MOVED, NEW_RESPONSE, OLD_RESPONSE,
        RETENTION, Who, attempt, fingerprint, moment, span, token,
    },
};
use crate::{
    Abandoned, Acquired, ClaimOutcome, Record, ReleaseReason, Replay, Retention, Running, State,
};

impl Rules<'_> {
    pub(super) fn acquired(
        &self,
        number: u32,
        lease_remaining: u64,
        checkpoint: Option<&'static [u8]>,
        first_claimed: u64,
    ) -> Answer {
        Answer::Claim(ClaimOutcome::Acquired(Acquired {
            attempt: attempt(number),
            lease_remaining: span(lease_remaining),
            checkpoint: checkpoint.map(Bytes::from_static),
            first_attempt_ago: span(self.case.now.saturating_sub(first_claimed)),
        }))
    }

    pub(super) fn replay(&self) -> Answer {
        let now = self.case.now;
        Answer::Claim(ClaimOutcome::Replay(Replay {
            response: Bytes::from_static(OLD_RESPONSE),
            attempt: attempt(self.case.attempt),
            age: span(now.saturating_sub(MOVED)),
            retention_remaining: span((MOVED + RETENTION).saturating_sub(now)),
            first_attempt_ago: span(now.saturating_sub(self.case.first_claimed())),
        }))
    }

    pub(super) fn running(&self) -> Answer {
        Answer::Claim(ClaimOutcome::InProgress(Running {
            attempt: attempt(self.case.attempt),
            running_for: span(self.case.now.saturating_sub(CLAIMED)),
            lease_remaining: span(LEASE_END.saturating_sub(self.case.now)),
        }))
    }

    pub(super) fn abandoned(&self) -> Answer {
        let began = if self.case.kind == Kind::Unknown { MOVED } else { LEASE_END };
        Answer::Claim(ClaimOutcome::Abandoned(Abandoned {
            attempt: attempt(self.case.attempt),
            since: span(self.case.now.saturating_sub(began)),
            checkpoint: self.case.checkpoint.map(Bytes::from_static),
        }))
    }

    /// The record of a claim that begins an attempt now.
    #[expect(clippy::unnecessary_wraps, reason = "the shape of what clauses write")]
    pub(super) fn begun(
        &self,
        by: u8,
        print: u8,
        number: u32,
        checkpoint: Option<&'static [u8]>,
    ) -> Option<Record> {
        let now = self.case.now;
        let first = if number == 1 { now } else { self.case.first_claimed() };
        Some(Record {
            fingerprint: fingerprint(print),
            token: token(by),
            attempt: attempt(number),
            retention: Retention::new(span(ASKED_RETENTION)).unwrap(),
            first_claimed_at: moment(first),
            claimed_at: moment(now),
            expires_at: moment(now + ASKED_LEASE + ASKED_RETENTION),
            state: State::InProgress {
                lease_until: moment(now + ASKED_LEASE),
                sequence: 0,
                checkpoint: checkpoint.map(Bytes::from_static),
            },
        })
    }

    /// The record that is completed now.
    pub(super) fn completed(&self, by: Who, print: u8, first: u64, claimed: u64) -> Record {
        Record {
            fingerprint: fingerprint(print),
            token: token(by.token),
            attempt: attempt(by.attempt),
            retention: Retention::new(span(ASKED_RETENTION)).unwrap(),
            first_claimed_at: moment(first),
            claimed_at: moment(claimed),
            expires_at: moment(self.case.now + ASKED_RETENTION),
            state: State::Completed {
                at: moment(self.case.now),
                response: Bytes::from_static(NEW_RESPONSE),
            },
        }
    }

    /// The stored record, given back now.
    pub(super) fn released(&self, reason: ReleaseReason) -> Option<Record> {
        Some(Record {
            expires_at: moment(self.case.now + RETENTION),
            state: State::Released {
                reason,
                at: moment(self.case.now),
                checkpoint: self.case.checkpoint.map(Bytes::from_static),
            },
            ..self.case.stored()?
        })
    }
}
