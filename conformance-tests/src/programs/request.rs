use idempotency_core::{
    AttemptNumber, ClaimRequest, ClaimToken, CompleteRequest, Fingerprint, IdempotencyKey, Lease,
    ReleaseRequest, RenewRequest, Retention, SeenClaim, Settlement,
};

use super::{
    pace::Pace,
    step::{Ask, Verdict, Who},
};
use crate::{
    failure::{Halt, Verdict as Judged},
    subject::{lease, retention},
};

/// What store and machine are asked, in the library's own words.
#[derive(Debug)]
pub(super) enum Request<'k> {
    Claim(ClaimRequest<'k>),
    Complete(CompleteRequest<'k>),
    Renew(RenewRequest<'k>),
    Release(ReleaseRequest<'k>),
    Lookup,
    Settle(SeenClaim, Settlement),
    Remove(SeenClaim),
    Sweep,
}

/// Makes requests out of what programs are made of.
#[derive(Clone, Copy)]
pub(super) struct Asker<'k> {
    pub(super) pace: &'k Pace,
    pub(super) key: &'k IdempotencyKey,
    pub(super) tokens: [ClaimToken; 3],
}

impl<'k> Asker<'k> {
    pub(super) fn request(&self, ask: &Ask) -> Judged<Request<'k>> {
        let key = self.key;
        Ok(match ask {
            Ask::Claim { token, fingerprint, takeover, lease, retention } => {
                Request::Claim(ClaimRequest {
                    key,
                    fingerprint: Fingerprint::of_bytes([*fingerprint]),
                    token: self.token(*token),
                    lease: self.lease(*lease)?,
                    retention: self.retention(*retention)?,
                    takeover: *takeover,
                })
            }
            Ask::Complete { who, fingerprint, response, retention } => {
                let SeenClaim { token, attempt } = self.seen(*who)?;
                Request::Complete(CompleteRequest {
                    key,
                    token,
                    attempt,
                    fingerprint: Fingerprint::of_bytes([*fingerprint]),
                    response: response.clone(),
                    retention: self.retention(*retention)?,
                })
            }
            Ask::Renew { who, sequence, lease, checkpoint } => {
                let SeenClaim { token, attempt } = self.seen(*who)?;
                Request::Renew(RenewRequest {
                    key,
                    token,
                    attempt,
                    sequence: (*sequence).try_into().map_err(not_zero)?,
                    lease: self.lease(*lease)?,
                    checkpoint: checkpoint.clone(),
                })
            }
            Ask::Release { who, release } => {
                let SeenClaim { token, attempt } = self.seen(*who)?;
                Request::Release(ReleaseRequest { key, token, attempt, release: *release })
            }
            Ask::Lookup => Request::Lookup,
            Ask::Settle { who, verdict } => {
                Request::Settle(self.seen(*who)?, self.settlement(*verdict)?)
            }
            Ask::Remove { who } => Request::Remove(self.seen(*who)?),
            Ask::Sweep => Request::Sweep,
        })
    }

    fn token(&self, name: u8) -> ClaimToken {
        let [first, second, third] = self.tokens;
        match name {
            0 => first,
            1 => second,
            _ => third,
        }
    }

    fn seen(&self, who: Who) -> Judged<SeenClaim> {
        let attempt = AttemptNumber::new(who.attempt);
        let attempt = attempt.ok_or_else(|| Halt::fail("an attempt", "a number", "none"))?;
        Ok(SeenClaim { token: self.token(who.token), attempt })
    }

    fn lease(&self, units: u32) -> Judged<Lease> {
        lease(self.pace.span(units))
    }

    fn retention(&self, units: u32) -> Judged<Retention> {
        retention(self.pace.span(units))
    }

    fn settlement(&self, verdict: Verdict) -> Judged<Settlement> {
        Ok(match verdict {
            Verdict::Failed => Settlement::Failed,
            Verdict::NotStarted => Settlement::NotStarted,
            Verdict::Completed => {
                let retention = self.retention(2)?;
                Settlement::Completed { response: "settled".into(), retention }
            }
        })
    }
}

fn not_zero(error: std::num::TryFromIntError) -> Halt {
    Halt::fail("a sequence number", "one that is not zero", error.to_string())
}
