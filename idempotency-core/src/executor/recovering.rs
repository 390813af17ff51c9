//! Where taking over is refused: Refuse, ask the recovery hook, claim, act on its verdict (C63).

use std::time::Duration;

use super::{
    Begun, ClaimGuard, Error, EventKind, Question, Recorded, Recovery, Replayed, Verdict,
    begin::{Beginning, Next},
    call::Answered,
};
use crate::{
    attempt_number::AttemptNumber,
    store::{Abandoned, ClaimOutcome, Release, Takeover},
};

impl Beginning<'_> {
    pub(super) async fn recover(&mut self, seen: Abandoned) -> Result<Next, Error> {
        self.observe(EventKind::Abandoned, Some(seen.attempt), None);
        let Some(hook) = self.executor.settings.recovery.clone() else {
            return Ok(Next::Done(Begun::Unknown(seen)));
        };
        let verdict = hook.recover(self.question(&seen)).await;
        if matches!(verdict, Verdict::Unknown) {
            return Ok(Next::Done(Begun::Unknown(seen)));
        }
        let Answered { answer, sent_at } = self.claim(Takeover::Allow).await?;
        // anything else is told by the next claim
        let ClaimOutcome::Acquired(acquired) = answer else {
            return Ok(Next::ClaimAgain);
        };
        let Some(guard) = self.hold(&acquired, sent_at).await? else {
            return self.claim_anew().map(|()| Next::ClaimAgain);
        };
        if acquired.attempt == seen.attempt.next() {
            return self.apply(verdict, guard, seen).await;
        }
        // another attempt came in between: the verdict is not about the last one (C63)
        let before = AttemptNumber::new(acquired.attempt.get() - 1).unwrap_or(seen.attempt);
        let last = Abandoned { attempt: before, checkpoint: acquired.checkpoint, ..seen };
        let verdict = self.ask(&*hook, &last).await;
        self.apply(verdict, guard, last).await
    }

    async fn ask(&self, hook: &dyn Recovery, abandoned: &Abandoned) -> Verdict {
        hook.recover(self.question(abandoned)).await
    }

    fn question<'q>(&'q self, abandoned: &'q Abandoned) -> Question<'q> {
        Question { key: self.key, fingerprint: self.fingerprint, abandoned }
    }

    /// Acts on a verdict about the attempt right before the one that is held.
    async fn apply(
        &mut self,
        verdict: Verdict,
        guard: ClaimGuard,
        judged: Abandoned,
    ) -> Result<Next, Error> {
        let attempt = guard.attempt().number();
        match verdict {
            Verdict::Unknown => {
                // a failed release is an event; its lease then ends the claim
                let _told = guard.release(Release::Unknown).await;
                Ok(Next::Done(Begun::Unknown(judged)))
            }
            Verdict::NotHappened if guard.attempt().is_lost() => {
                self.claim_anew().map(|()| Next::ClaimAgain)
            }
            Verdict::NotHappened => {
                let ago = guard.attempt().first_attempt_ago();
                self.observe(EventKind::Recovered, Some(judged.attempt), None);
                self.observe(EventKind::TakenOver, Some(attempt), Some(ago));
                Ok(Next::Done(Begun::Acquired(guard)))
            }
            Verdict::Happened(answer) => {
                if let Recorded::Lost = guard.complete(answer.clone()).await {
                    return self.claim_anew().map(|()| Next::ClaimAgain);
                }
                self.observe(EventKind::Recovered, Some(judged.attempt), None);
                Ok(Next::Done(Begun::Replayed(Replayed {
                    answer,
                    attempt,
                    age: Duration::ZERO,
                    retention_remaining: self.executor.settings.retention.get(),
                })))
            }
        }
    }
}
