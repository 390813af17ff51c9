use std::{num::NonZeroU64, sync::Arc, time::Duration};

use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimRequest, ClaimToken, CompleteRequest, Fingerprint, IdempotencyKey,
    IdempotencyStore, Lease, Record, Release, ReleaseRequest, RenewRequest, Retention, State,
    StoreError, Takeover, Timestamp,
    machine::{self, Decision, Now, Write},
};

use super::program::{Gift, Number, Program, Span, Step};
use crate::{
    answer::Answer,
    failure::{Halt, Verdict},
    subject::{LONG, Subject, lease, retention},
};

/// What is over within this long is waited out before the next step.
const SOON: Duration = Duration::from_secs(1);

/// The machine over one record, with a clock of its own: only the order of moments counts.
struct Reference {
    record: Option<Record>,
    at: Timestamp,
    remembers_not_started: bool,
}

/// One key of a store, and the machine beside it.
struct Pair<'t> {
    t: &'t Subject,
    store: Arc<dyn IdempotencyStore>,
    key: IdempotencyKey,
    tokens: [ClaimToken; 3],
    reference: Reference,
}

/// Fails at the first step whose answer on the store is not the machine's.
pub(crate) async fn agrees(t: &Subject, program: &Program) -> Verdict {
    let mut pair = Pair {
        t,
        store: t.store(),
        key: t.key()?,
        tokens: [t.token(), t.token(), t.token()],
        reference: Reference {
            record: None,
            at: Timestamp::from_unix_millis(1_577_836_800_000),
            remembers_not_started: t.profile().remembers_not_started,
        },
    };
    for (number, step) in program.iter().enumerate() {
        pair.take(number, step).await?;
    }
    Ok(())
}

impl Reference {
    fn decide<A: Into<Answer>>(
        &mut self,
        decide: impl FnOnce(Option<&Record>, Now) -> Result<Decision<A>, StoreError>,
    ) -> Answer {
        // the machine refuses only spent tokens
        let Ok(Decision { write, answer }) = decide(self.record.as_ref(), self.at.into()) else {
            return Answer::TokenSpent;
        };
        if let Write::Put(record) = write {
            let forgotten = record.state == State::Unused && !self.remembers_not_started;
            self.record = Some(record).filter(|_| !forgotten);
        }
        answer.into()
    }

    fn found(&self) -> Answer {
        machine::lookup(self.record.as_ref(), self.at.into()).into()
    }

    fn attempt(&self, number: Number) -> AttemptNumber {
        let current = self.record.as_ref().map(|record| record.attempt);
        match number {
            Number::Current => current.unwrap_or(AttemptNumber::FIRST),
            Number::Is(number) => {
                AttemptNumber::new(u32::from(number)).unwrap_or(AttemptNumber::FIRST)
            }
        }
    }

    /// The last of the deadlines that are over soon.
    fn soon(&self) -> Option<Timestamp> {
        let record = self.record.as_ref()?;
        let lease = match record.state {
            State::InProgress { lease_until, .. } => Some(lease_until),
            _ => None,
        };
        let deadlines = lease.into_iter().chain([record.expires_at]);
        deadlines.filter(|at| *at >= self.at && at.since(self.at) < SOON).max()
    }
}

impl Pair<'_> {
    fn token(&self, who: u8) -> ClaimToken {
        let [first, second, third] = self.tokens;
        match who {
            0 => first,
            1 => second,
            _ => third,
        }
    }

    async fn take(&mut self, number: usize, step: &Step) -> Verdict {
        let (got, expected) = self.both(step).await?;
        let what = format!("step {number}, {step:?}");
        let got = got.map_err(|error| Halt::error(&what, &error))?;
        crate::failure::same(&what, &got, &expected)?;
        self.wait().await;
        let seen = self.store.lookup(&self.key).await;
        let seen = seen.map_err(|error| Halt::error(&what, &error))?;
        let seen = Answer::from(seen.as_ref());
        crate::failure::same(&format!("the record after {what}"), &seen, &self.reference.found())
    }

    /// Lets everything brief be over, on both clocks.
    async fn wait(&mut self) {
        if let Some(deadline) = self.reference.soon() {
            self.t.wait_out(deadline.since(self.reference.at)).await;
            self.reference.at = deadline.after(Duration::from_millis(1));
        }
    }

    async fn both(&mut self, step: &Step) -> Verdict<(Result<Answer, StoreError>, Answer)> {
        match *step {
            Step::Claim { who, request, lease, retention, refuse } => {
                self.claim(who, request, (lease, retention), refuse).await
            }
            Step::Complete { who, attempt, request, response, retention } => {
                self.complete((who, attempt), request, response, retention).await
            }
            Step::Renew { who, attempt, sequence, lease, checkpoint } => {
                self.renew((who, attempt), sequence, lease, checkpoint).await
            }
            Step::Release { who, attempt, release } => self.release((who, attempt), release).await,
            Step::Lookup => {
                let found = self.store.lookup(&self.key).await;
                let found = found.map(|record| Answer::from(record.as_ref()));
                Ok((found, self.reference.found()))
            }
        }
    }

    async fn claim(
        &mut self,
        who: u8,
        request: u8,
        spans: (Span, Span),
        refuse: bool,
    ) -> Verdict<(Result<Answer, StoreError>, Answer)> {
        let request = ClaimRequest {
            key: &self.key,
            fingerprint: fingerprint(request),
            token: self.token(who),
            lease: lease_of(spans.0)?,
            retention: retention_of(spans.1)?,
            takeover: if refuse { Takeover::Refuse } else { Takeover::Allow },
        };
        let expected = self.reference.decide(|record, now| machine::claim(record, &request, now));
        Ok((Answer::of_claim(self.store.claim(request).await), expected))
    }

    async fn complete(
        &mut self,
        (who, attempt): (u8, Number),
        request: u8,
        response: u8,
        span: Span,
    ) -> Verdict<(Result<Answer, StoreError>, Answer)> {
        let request = CompleteRequest {
            key: &self.key,
            token: self.token(who),
            attempt: self.reference.attempt(attempt),
            fingerprint: fingerprint(request),
            response: content(response),
            retention: retention_of(span)?,
        };
        let decide = |record: Option<&Record>, now| Ok(machine::complete(record, &request, now));
        let expected = self.reference.decide(decide);
        Ok((self.store.complete(request).await.map(Answer::from), expected))
    }

    async fn renew(
        &mut self,
        (who, attempt): (u8, Number),
        sequence: u8,
        span: Span,
        checkpoint: Option<u8>,
    ) -> Verdict<(Result<Answer, StoreError>, Answer)> {
        let request = RenewRequest {
            key: &self.key,
            token: self.token(who),
            attempt: self.reference.attempt(attempt),
            sequence: NonZeroU64::new(u64::from(sequence)).unwrap_or(NonZeroU64::MIN),
            lease: lease_of(span)?,
            checkpoint: checkpoint.map(content),
        };
        let decide = |record: Option<&Record>, now| Ok(machine::renew(record, &request, now));
        let expected = self.reference.decide(decide);
        Ok((self.store.renew(request).await.map(Answer::from), expected))
    }

    async fn release(
        &mut self,
        (who, attempt): (u8, Number),
        release: Gift,
    ) -> Verdict<(Result<Answer, StoreError>, Answer)> {
        let request = ReleaseRequest {
            key: &self.key,
            token: self.token(who),
            attempt: self.reference.attempt(attempt),
            release: match release {
                Gift::NotStarted => Release::NotStarted,
                Gift::Failed => Release::Failed,
                Gift::Unknown => Release::Unknown,
            },
        };
        let decide = |record: Option<&Record>, now| Ok(machine::release(record, &request, now));
        let expected = self.reference.decide(decide);
        Ok((self.store.release(request).await.map(Answer::from), expected))
    }
}

fn fingerprint(request: u8) -> Fingerprint {
    Fingerprint::of_bytes([request])
}

/// 0 is empty.
fn content(number: u8) -> Bytes {
    Bytes::from(vec![number; usize::from(number)])
}

fn lease_of(span: Span) -> Verdict<Lease> {
    lease(length(span))
}

fn retention_of(span: Span) -> Verdict<Retention> {
    retention(length(span))
}

const fn length(span: Span) -> Duration {
    match span {
        Span::Brief => Duration::from_millis(1),
        Span::Long => LONG,
    }
}
