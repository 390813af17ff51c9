//! Giving back: C25 to C29.

use idempotency_core::{
    AttemptNumber, FinishOutcome, Release, ReleaseOutcome, ReleaseReason, RenewOutcome, State,
};

use super::prelude::*;

const ALL: [Release; 3] = [Release::NotStarted, Release::Failed, Release::Unknown];

async fn released(caller: &Caller, release: Release) -> Verdict {
    same("release", &caller.release(release).await?, &ReleaseOutcome::Released)
}

pub(crate) async fn not_started_frees_the_key(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    owner.held(Renewal::number(1).leaving("left")).await?;
    released(&owner, Release::NotStarted).await?;
    same("lookup", &t.record(&owner.key).await?, &None)?;
    let next = t.caller(&owner.key).asking("something else").refusing();
    let acquired = next.acquired().await?;
    same("the attempt", &acquired.attempt, &AttemptNumber::FIRST)?;
    same("the checkpoint", &acquired.checkpoint, &None)
}

/// Kind of fault: earlier attempts may have run, so a later one cannot free the key.
pub(crate) async fn not_started_by_a_later_attempt_counts_as_failed(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.holder(&key).await?;
    first.held(Renewal::number(1).leaving("left")).await?;
    released(&first, Release::Unknown).await?;
    let second = t.holder(&key).await?;
    released(&second, Release::NotStarted).await?;
    same("the reason", &reason(t, &second).await?, &ReleaseReason::Failed)?;
    t.caller(&key).asking("something else").mismatched().await?;
    let third = t.caller(&key).refusing().acquired().await?;
    same("the attempt", &third.attempt.get(), &3)?;
    same("the checkpoint", &third.checkpoint.as_deref(), &Some(&b"left"[..]))
}

async fn reason(t: &Subject, caller: &Caller) -> Verdict<ReleaseReason> {
    match held_record(t, &caller.key).await?.state {
        State::Released { reason, .. } => Ok(reason),
        other => Err(Halt::fail("the record", "released", format!("{other:?}"))),
    }
}

async fn is_marked(t: &Subject, release: Release, expected: ReleaseReason) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    owner.held(Renewal::number(1).leaving("left")).await?;
    released(&owner, release).await?;
    same("the reason", &reason(t, &owner).await?, &expected)?;
    let record = held_record(t, &owner.key).await?;
    same("the fingerprint", &record.fingerprint, &owner.fingerprint)?;
    same("the attempt", &record.attempt, &owner.attempt)?;
    same("the checkpoint", &checkpoint_of(&record), &Some(&b"left"[..]))?;
    let renewal = owner.renew(Renewal::number(2)).await?;
    same("a renewal after it", &renewal, &RenewOutcome::Lost)
}

pub(crate) async fn failed_is_marked_and_keeps_the_record(t: &Subject) -> Verdict {
    is_marked(t, Release::Failed, ReleaseReason::Failed).await
}

pub(crate) async fn unknown_is_marked_and_keeps_the_record(t: &Subject) -> Verdict {
    is_marked(t, Release::Unknown, ReleaseReason::Unknown).await
}

/// Kind of fault: a failure after the lease expires at once or never (H-18).
pub(crate) async fn the_holder_releases_after_its_lease(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    released(&owner, Release::Failed).await?;
    same("the reason", &reason(t, &owner).await?, &ReleaseReason::Failed)?;
    let second = t.caller(&key).refusing().acquired().await?;
    same("the attempt", &second.attempt.get(), &2)
}

/// `caller` is told Lost however it releases, and the record stays as it is.
async fn cannot_release(t: &Subject, caller: &Caller) -> Verdict {
    let before = t.record(&caller.key).await?;
    for release in ALL {
        same("release", &caller.release(release).await?, &ReleaseOutcome::Lost)?;
        same("the record", &t.record(&caller.key).await?, &before)?;
    }
    Ok(())
}

pub(crate) async fn a_stranger_cannot_release(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    let stranger = t.caller(&owner.key);
    cannot_release(t, &stranger).await?;
    released(&owner, Release::Unknown).await?;
    cannot_release(t, &stranger).await
}

/// Kind of fault: a late owner deletes its successor's claim (H-06).
pub(crate) async fn a_stale_owner_cannot_release(t: &Subject) -> Verdict {
    let key = t.key()?;
    let stale = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    t.holder(&key).await?;
    cannot_release(t, &stale).await
}

pub(crate) async fn another_attempt_of_the_token_cannot_release(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    cannot_release(t, &owner.in_attempt(AttemptNumber::FIRST.next())).await
}

/// Kind of fault: clean-up removes a finished result (H-05, H-14).
pub(crate) async fn nobody_releases_what_is_completed(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    cannot_release(t, &owner).await?;
    cannot_release(t, &t.caller(&owner.key)).await
}

pub(crate) async fn a_repeated_release_changes_nothing(t: &Subject) -> Verdict {
    for first in [Release::Failed, Release::Unknown] {
        let owner = t.holder(&t.key()?).await?;
        released(&owner, first).await?;
        let before = t.record(&owner.key).await?;
        t.elapse(Duration::from_millis(5)).await;
        for again in ALL {
            released(&owner, again).await?;
            same("the record", &t.record(&owner.key).await?, &before)?;
        }
    }
    Ok(())
}

pub(crate) async fn releasing_what_is_gone_creates_nothing(t: &Subject) -> Verdict {
    let expired = t.key()?;
    let owner = t.caller(&expired).lease(t.window()).retention(t.window());
    let owner = owner.acquire().await?;
    t.until_gone(&expired, t.window() * 2).await?;
    for caller in [owner, t.caller(&t.key()?)] {
        for release in ALL {
            released(&caller, release).await?;
            same("lookup", &t.record(&caller.key).await?, &None)?;
        }
    }
    Ok(())
}

pub(crate) async fn not_started_repeated_is_released(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    for release in ALL {
        released(&owner, Release::NotStarted).await?;
        released(&owner, release).await?;
        same("lookup", &t.record(&owner.key).await?, &None)?;
    }
    Ok(())
}

/// Kind of fault: a claim that was on its way when its caller gave up holds the key after all.
pub(crate) async fn a_token_given_back_as_not_started_is_remembered(t: &Subject) -> Verdict {
    if !t.profile().remembers_not_started {
        return Err(Halt::Skip(
            "the store's profile says that it does not remember tokens".to_owned(),
        ));
    }
    let owner = t.holder(&t.key()?).await?;
    released(&owner, Release::NotStarted).await?;
    owner.spent().await?;
    owner.clone().refusing().spent().await?;
    same("lookup", &t.record(&owner.key).await?, &None)
}

pub(crate) async fn a_token_given_back_does_not_hinder_others(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    released(&owner, Release::NotStarted).await?;
    let next = t.holder(&owner.key).await?;
    same("the attempt", &next.attempt, &AttemptNumber::FIRST)?;
    t.caller(&owner.key).in_progress().await?;
    same("complete", &next.complete("next").await?, &FinishOutcome::Done)
}
