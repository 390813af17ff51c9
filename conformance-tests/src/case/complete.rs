//! Storing the answer: C10 to C14.

use idempotency_core::{
    AttemptNumber, FinishOutcome, IdempotencyKey, Release, ReleaseOutcome, State,
};

use super::prelude::*;

async fn response_is(t: &Subject, key: &IdempotencyKey, expected: &str) -> Verdict {
    let replay = t.caller(key).replayed().await?;
    same("the response", &&replay.response[..], &expected.as_bytes())
}

pub(crate) async fn the_holder_completes(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    response_is(t, &owner.key, "answer").await
}

pub(crate) async fn completing_drops_the_checkpoint(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    owner.held(Renewal::number(1).leaving("left")).await?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    let record = held_record(t, &owner.key).await?;
    let completed = matches!(record.state, State::Completed { .. });
    check("the record", "completed", Holds(completed), record)
}

/// Kind of fault: retention counted from different moments (H-17).
pub(crate) async fn retention_counts_from_completion(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).retention(t.window()).acquire().await?;
    t.elapse(t.window()).await;
    let before = t.now();
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    let rest = t.caller(&key).replayed().await?.retention_remaining;
    let spent = t.since(before) + t.late();
    between("the rest", rest, t.window().saturating_sub(spent), t.window())
}

pub(crate) async fn the_retention_of_the_completion_counts(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).retention(LONG * 5).acquire().await?;
    let before = t.now();
    let owner = owner.retention(LONG);
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    let rest = t.caller(&key).replayed().await?.retention_remaining;
    between("the rest", rest, LONG.saturating_sub(t.since(before) + t.late()), LONG)
}

pub(crate) async fn the_first_response_stays(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("complete", &owner.complete("first").await?, &FinishOutcome::Done)?;
    let before = t.record(&owner.key).await?;
    let again = owner.clone().retention(LONG * 3);
    same("complete again", &again.complete("second").await?, &FinishOutcome::Done)?;
    same("the record", &t.record(&owner.key).await?, &before)?;
    response_is(t, &owner.key, "first").await
}

/// `caller` is told Lost, and the record stays as it is.
async fn cannot_complete(t: &Subject, caller: &Caller) -> Verdict {
    let before = t.record(&caller.key).await?;
    same("complete", &caller.complete("wrong").await?, &FinishOutcome::Lost)?;
    same("the record", &t.record(&caller.key).await?, &before)
}

pub(crate) async fn a_stranger_cannot_complete(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    let stranger = t.caller(&owner.key);
    cannot_complete(t, &stranger).await?;
    same("release", &owner.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    cannot_complete(t, &stranger).await
}

/// Kind of fault: ownership not checked on write (H-04, H-06).
pub(crate) async fn a_stale_owner_cannot_complete(t: &Subject) -> Verdict {
    let key = t.key()?;
    let stale = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    let second = t.holder(&key).await?;
    cannot_complete(t, &stale).await?;
    same("complete", &second.complete("second").await?, &FinishOutcome::Done)?;
    cannot_complete(t, &stale).await?;
    response_is(t, &key, "second").await
}

pub(crate) async fn another_attempt_of_the_token_cannot_complete(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    let other = owner.clone().in_attempt(AttemptNumber::FIRST.next());
    cannot_complete(t, &other).await?;
    same("complete", &owner.complete("first").await?, &FinishOutcome::Done)?;
    cannot_complete(t, &other).await
}

/// Kind of fault: record identity changes mid-way (H-16).
pub(crate) async fn another_fingerprint_cannot_complete(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    let other = owner.clone().asking("something else");
    cannot_complete(t, &other).await?;
    same("complete", &owner.complete("first").await?, &FinishOutcome::Done)?;
    cannot_complete(t, &other).await
}

/// Kind of fault: the effect is done but the answer is dropped (H-10).
pub(crate) async fn the_holder_completes_after_its_lease(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    same("complete", &owner.complete("late").await?, &FinishOutcome::Done)?;
    response_is(t, &key, "late").await
}

async fn completes_after(t: &Subject, release: Release) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("release", &owner.release(release).await?, &ReleaseOutcome::Released)?;
    same("complete", &owner.complete("late").await?, &FinishOutcome::Done)?;
    response_is(t, &owner.key, "late").await
}

pub(crate) async fn the_holder_completes_after_its_failed_release(t: &Subject) -> Verdict {
    completes_after(t, Release::Failed).await
}

pub(crate) async fn the_holder_completes_after_its_unknown_release(t: &Subject) -> Verdict {
    completes_after(t, Release::Unknown).await
}

async fn restores(t: &Subject, caller: &Caller) -> Verdict {
    same("complete", &caller.complete("restored").await?, &FinishOutcome::Restored)?;
    let replay = t.caller(&caller.key).replayed().await?;
    same("the response", &&replay.response[..], &&b"restored"[..])?;
    same("the attempt", &replay.attempt, &caller.attempt)?;
    same("complete again", &caller.complete("again").await?, &FinishOutcome::Done)?;
    cannot_complete(t, &t.caller(&caller.key)).await
}

/// Kind of fault: asynchronous replication drops the newest claim (H-49), eviction (H-46).
pub(crate) async fn a_record_that_is_gone_is_restored(t: &Subject) -> Verdict {
    let third = AttemptNumber::FIRST.next().next();
    restores(t, &t.caller(&t.key()?).in_attempt(third)).await
}

pub(crate) async fn an_expired_record_is_restored(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).retention(t.window());
    let owner = owner.acquire().await?;
    t.until_gone(&key, t.window() * 2).await?;
    restores(t, &owner.retention(LONG)).await
}

pub(crate) async fn a_key_given_back_as_not_started_is_restored(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("release", &owner.release(Release::NotStarted).await?, &ReleaseOutcome::Released)?;
    restores(t, &owner).await
}
