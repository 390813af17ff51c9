//! Asking for the right to execute: C01, C02, C03, C09.

use futures_util::future::try_join_all;
use idempotency_core::{
    AttemptNumber, ClaimOutcome, FinishOutcome, IdempotencyKey, Release, ReleaseOutcome,
};

use super::prelude::*;

pub(crate) async fn absent_key_is_acquired_as_attempt_one(t: &Subject) -> Verdict {
    let acquired = t.caller(&t.key()?).acquired().await?;
    same("the attempt", &acquired.attempt, &AttemptNumber::FIRST)?;
    same("the checkpoint", &acquired.checkpoint, &None)?;
    same("first attempt ago", &acquired.first_attempt_ago, &Duration::ZERO)
}

/// Everything about the key must look as if it had never been used.
async fn looks_unused(t: &Subject, key: &IdempotencyKey) -> Verdict {
    let newcomer = t.caller(key).asking("something else");
    let acquired = newcomer.acquired().await?;
    same("the attempt", &acquired.attempt, &AttemptNumber::FIRST)?;
    same("the checkpoint", &acquired.checkpoint, &None)?;
    same("first attempt ago", &acquired.first_attempt_ago, &Duration::ZERO)?;
    let record = held_record(t, key).await?;
    same("the token", &record.token, &newcomer.token)?;
    same("the sequence", &sequence_of(&record), &Some(0))
}

pub(crate) async fn nothing_of_an_expired_claim_survives(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.caller(&key).lease(t.window()).retention(t.window());
    let first = first.acquire().await?;
    let renewal = Renewal::number(3).leaving("left").lease(t.window());
    first.held(renewal).await?;
    t.until_gone(&key, t.window() * 2).await?;
    looks_unused(t, &key).await
}

pub(crate) async fn nothing_of_an_expired_release_survives(t: &Subject) -> Verdict {
    for release in [Release::Failed, Release::Unknown] {
        let key = t.key()?;
        let first = t.caller(&key).retention(t.window()).acquire().await?;
        first.held(Renewal::number(3).leaving("left")).await?;
        same("release", &first.release(release).await?, &ReleaseOutcome::Released)?;
        t.until_gone(&key, t.window()).await?;
        looks_unused(t, &key).await?;
    }
    Ok(())
}

pub(crate) async fn nothing_of_an_expired_response_survives(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.caller(&key).retention(t.window()).acquire().await?;
    same("complete", &first.complete("answer").await?, &FinishOutcome::Done)?;
    t.until_gone(&key, t.window()).await?;
    looks_unused(t, &key).await
}

/// How many of `callers`, who all claim at once, are Acquired.
async fn winners(callers: &[Caller]) -> Verdict<usize> {
    let outcomes = try_join_all(callers.iter().map(Caller::claim)).await?;
    let acquired = |outcome: &&ClaimOutcome| matches!(outcome, ClaimOutcome::Acquired(_));
    Ok(outcomes.iter().filter(acquired).count())
}

fn crowd(t: &Subject, key: &IdempotencyKey) -> Vec<Caller> {
    (0..16).map(|_| t.caller(key)).collect()
}

pub(crate) async fn concurrent_claims_have_one_winner(t: &Subject) -> Verdict {
    for _ in 0..t.count(10) {
        let winners = winners(&crowd(t, &t.key()?)).await?;
        same("winners of 16 claims at once", &winners, &1)?;
    }
    Ok(())
}

pub(crate) async fn concurrent_claims_of_two_connections_have_one_winner(t: &Subject) -> Verdict {
    let second = t.second().await?;
    for _ in 0..t.count(10) {
        let mut crowd = crowd(t, &t.key()?);
        for caller in crowd.iter_mut().step_by(2) {
            caller.store = Arc::clone(&second);
        }
        same("winners of 16 claims at once", &winners(&crowd).await?, &1)?;
    }
    Ok(())
}

pub(crate) async fn concurrent_takeovers_of_an_abandoned_key_have_one_winner(
    t: &Subject,
) -> Verdict {
    let key = t.key()?;
    t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    same("winners of 16 claims at once", &winners(&crowd(t, &key)).await?, &1)
}

pub(crate) async fn concurrent_takeovers_of_a_failed_key_have_one_winner(t: &Subject) -> Verdict {
    for _ in 0..t.count(10) {
        let key = t.key()?;
        let first = t.holder(&key).await?;
        same("release", &first.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
        same("winners of 16 claims at once", &winners(&crowd(t, &key)).await?, &1)?;
    }
    Ok(())
}

/// Kind of fault: an own lost success looks like a conflict (H-50).
pub(crate) async fn own_token_claims_again_and_changes_nothing(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.holder(&key).await?;
    owner.held(Renewal::number(1).leaving("left")).await?;
    let before = t.record(&key).await?;
    for caller in [owner.clone(), owner.clone().refusing(), owner.lease(t.window())] {
        let acquired = caller.acquired().await?;
        same("the attempt", &acquired.attempt, &AttemptNumber::FIRST)?;
        same("the checkpoint", &acquired.checkpoint.as_deref(), &Some(&b"left"[..]))?;
        same("the record", &t.record(&key).await?, &before)?;
    }
    Ok(())
}

pub(crate) async fn own_token_claims_again_after_its_lease(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    let before = t.record(&key).await?;
    for caller in [owner.clone(), owner.refusing()] {
        same("the attempt", &caller.acquired().await?.attempt, &AttemptNumber::FIRST)?;
        same("the record", &t.record(&key).await?, &before)?;
    }
    Ok(())
}

pub(crate) async fn own_token_of_a_later_attempt_claims_again(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.holder(&key).await?;
    same("release", &first.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    let second = t.holder(&key).await?;
    let before = t.record(&key).await?;
    let again = second.acquired().await?;
    same("the attempt", &again.attempt, &second.attempt)?;
    same("the record", &t.record(&key).await?, &before)
}

async fn token_is_spent_by(t: &Subject, release: Release) -> Verdict {
    let key = t.key()?;
    let owner = t.holder(&key).await?;
    same("release", &owner.release(release).await?, &ReleaseOutcome::Released)?;
    let before = t.record(&key).await?;
    owner.spent().await?;
    owner.refusing().spent().await?;
    same("the record", &t.record(&key).await?, &before)
}

pub(crate) async fn token_released_as_failed_never_claims_again(t: &Subject) -> Verdict {
    token_is_spent_by(t, Release::Failed).await
}

pub(crate) async fn token_released_as_unknown_never_claims_again(t: &Subject) -> Verdict {
    token_is_spent_by(t, Release::Unknown).await
}

pub(crate) async fn acquired_tells_what_is_left_of_the_lease(t: &Subject) -> Verdict {
    let key = t.key()?;
    let before = t.now();
    let owner = t.caller(&key);
    let first = owner.acquired().await?.lease_remaining;
    between(
        "a new lease",
        first,
        LONG.saturating_sub(t.late() + t.since(before)),
        LONG + t.late(),
    )?;
    t.elapse(Duration::from_millis(30)).await;
    let again = owner.acquired().await?.lease_remaining;
    let spent = t.since(before) + t.late();
    between(
        "the lease later",
        again,
        LONG.saturating_sub(spent),
        LONG.saturating_sub(Duration::from_millis(29)),
    )
}

pub(crate) async fn acquired_after_its_own_lease_has_nothing_left(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    let again = owner.acquired().await?;
    same("the rest of the lease", &again.lease_remaining, &Duration::ZERO)
}

pub(crate) async fn acquired_tells_the_attempt_of_a_takeover(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.holder(&key).await?;
    same("release", &first.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    let acquired = t.caller(&key).acquired().await?;
    same("the attempt", &acquired.attempt.get(), &2)?;
    between("its lease", acquired.lease_remaining, LONG, LONG + t.late())
}
