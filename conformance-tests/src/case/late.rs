//! Operations that arrive twice, or after their caller had its answer: C50.

use idempotency_core::{
    ClaimOutcome, Effect, ErrorKind, FinishOutcome, Release, ReleaseOutcome, RenewOutcome,
};

use super::prelude::*;

pub(crate) async fn a_late_claim_after_the_completion_is_replayed(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    let before = t.record(&owner.key).await?;
    owner.replayed().await?;
    same("the record", &t.record(&owner.key).await?, &before)
}

pub(crate) async fn a_late_claim_after_a_takeover_is_in_progress(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    t.holder(&key).await?;
    let before = t.record(&key).await?;
    let running = first.in_progress().await?;
    same("the attempt", &running.attempt.get(), &2)?;
    same("the record", &t.record(&key).await?, &before)
}

/// The copies of all that a first owner ever sent reach the store while its successor works.
pub(crate) async fn copies_from_before_a_takeover_change_nothing(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.holder(&key).await?;
    first.held(Renewal::number(1).leaving("first")).await?;
    same("release", &first.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    let second = t.holder(&key).await?;
    let before = t.record(&key).await?;
    let renewal = first.renew(Renewal::number(1).leaving("first")).await?;
    same("a late renewal", &renewal, &RenewOutcome::Lost)?;
    for release in [Release::Failed, Release::NotStarted, Release::Unknown] {
        same("a late release", &first.release(release).await?, &ReleaseOutcome::Lost)?;
    }
    same("a late completion", &first.complete("first").await?, &FinishOutcome::Lost)?;
    first.in_progress().await?;
    same("the record", &t.record(&key).await?, &before)?;
    same("complete", &second.complete("second").await?, &FinishOutcome::Done)
}

pub(crate) async fn a_late_not_started_does_not_free_a_successors_key(t: &Subject) -> Verdict {
    let first = t.holder(&t.key()?).await?;
    same("release", &first.release(Release::NotStarted).await?, &ReleaseOutcome::Released)?;
    t.holder(&first.key).await?;
    let before = t.record(&first.key).await?;
    let late = first.release(Release::NotStarted).await?;
    same("a late release", &late, &ReleaseOutcome::Lost)?;
    same("the record", &t.record(&first.key).await?, &before)
}

/// Everything an owner sent arrives again after its completion, in any order.
pub(crate) async fn copies_of_a_whole_life_change_nothing(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    owner.held(Renewal::number(1).leaving("one")).await?;
    owner.held(Renewal::number(2).leaving("two")).await?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    let before = t.record(&owner.key).await?;
    for _ in 0..t.count(40) {
        match t.draw(|random| random.u8(..4)) {
            0 => drop(owner.replayed().await?),
            1 => {
                let late = owner.renew(Renewal::number(1).leaving("one")).await?;
                same("a late renewal", &late, &RenewOutcome::Lost)?;
            }
            2 => same("a copy", &owner.complete("answer").await?, &FinishOutcome::Done)?,
            _ => {
                let late = owner.release(Release::Failed).await?;
                same("a late release", &late, &ReleaseOutcome::Lost)?;
            }
        }
        same("the record", &t.record(&owner.key).await?, &before)?;
    }
    Ok(())
}

/// Each operation is sent twice at once, as a driver that retries does.
pub(crate) async fn doubled_operations_have_one_effect(t: &Subject) -> Verdict {
    for _ in 0..t.count(10) {
        let caller = t.caller(&t.key()?);
        let claims = futures_util::future::try_join(caller.claim(), caller.claim()).await?;
        for claim in [claims.0, claims.1] {
            let first = matches!(&claim, ClaimOutcome::Acquired(a) if a.attempt.get() == 1);
            check("a doubled claim", "Acquired as attempt 1", Holds(first), claim)?;
        }
        let renewal = Renewal::number(1).leaving("left");
        let (one, two) = (caller.held(renewal.clone()), caller.held(renewal));
        futures_util::future::try_join(one, two).await?;
        let (one, two) = (caller.complete("answer"), caller.complete("answer"));
        let both = futures_util::future::try_join(one, two).await?;
        same("a doubled completion", &both, &(FinishOutcome::Done, FinishOutcome::Done))?;
        same("the response", &&caller.replayed().await?.response[..], &&b"answer"[..])?;
    }
    Ok(())
}

pub(crate) async fn a_refusal_says_that_nothing_happened(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("release", &owner.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    match owner.try_claim().await? {
        Err(error) => {
            let got = (error.kind(), error.effect(), error.is_transient());
            same("the error", &got, &(ErrorKind::TokenSpent, Effect::None, false))
        }
        Ok(answer) => Err(Halt::fail("a spent token", "TokenSpent", format!("{answer:?}"))),
    }
}
