//! Holding on: C20 to C22.

use bytes::Bytes;
use idempotency_core::{AttemptNumber, FinishOutcome, Release, ReleaseOutcome, RenewOutcome};

use super::prelude::*;

pub(crate) async fn a_renewal_lengthens_the_lease(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    let before = t.now();
    let held = owner.held(Renewal::number(1).lease(LONG * 2)).await?;
    between("the lease", held, (LONG * 2).saturating_sub(t.since(before) + t.late()), LONG * 2)?;
    let seen = t.caller(&owner.key).in_progress().await?.lease_remaining;
    between("the lease seen", seen, (LONG * 2).saturating_sub(t.since(before) + t.late()), LONG * 2)
}

pub(crate) async fn a_renewal_never_shortens_the_lease(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    let before = t.now();
    let held = owner.held(Renewal::number(1).lease(Duration::from_secs(1))).await?;
    between(
        "the lease",
        held,
        LONG.saturating_sub(t.since(before) + Duration::from_secs(2) + t.late()),
        LONG,
    )?;
    let seen = t.caller(&owner.key).in_progress().await?.lease_remaining;
    between("the lease seen", seen, LONG / 2, LONG)
}

pub(crate) async fn a_checkpoint_is_replaced_only_when_given(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    let left = async || Ok(checkpoint_of(&held_record(t, &owner.key).await?).map(<[u8]>::to_vec));
    owner.held(Renewal::number(1)).await?;
    same("no checkpoint", &left().await?, &None)?;
    owner.held(Renewal::number(2).leaving("one")).await?;
    same("the checkpoint", &left().await?, &Some(b"one".to_vec()))?;
    owner.held(Renewal::number(3)).await?;
    same("the checkpoint", &left().await?, &Some(b"one".to_vec()))?;
    owner.held(Renewal::number(4).leaving("two")).await?;
    same("the checkpoint", &left().await?, &Some(b"two".to_vec()))
}

pub(crate) async fn an_empty_checkpoint_is_a_checkpoint(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.holder(&key).await?;
    owner.held(Renewal::number(1).leaving("full")).await?;
    owner.held(Renewal::number(2).leaving("")).await?;
    same("release", &owner.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    let acquired = t.caller(&key).acquired().await?;
    same("the checkpoint", &acquired.checkpoint, &Some(Bytes::new()))
}

pub(crate) async fn the_holder_renews_after_its_lease(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    owner.held(Renewal::number(1)).await?;
    t.caller(&key).in_progress().await.map(drop)
}

pub(crate) async fn a_later_attempt_counts_its_renewals_from_one(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.holder(&key).await?;
    first.held(Renewal::number(9).leaving("first")).await?;
    same("release", &first.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    let second = t.holder(&key).await?;
    second.held(Renewal::number(1).leaving("second")).await?;
    let record = held_record(t, &key).await?;
    same("the checkpoint", &checkpoint_of(&record), &Some(&b"second"[..]))
}

/// `caller` is told Lost, and the record, or that there is none, stays as it is.
async fn cannot_renew(t: &Subject, caller: &Caller) -> Verdict {
    let before = t.record(&caller.key).await?;
    let renewal = Renewal::number(100).lease(LONG * 9).leaving("wrong");
    same("renew", &caller.renew(renewal).await?, &RenewOutcome::Lost)?;
    same("the record", &t.record(&caller.key).await?, &before)
}

pub(crate) async fn a_stranger_cannot_renew(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    cannot_renew(t, &t.caller(&owner.key)).await
}

pub(crate) async fn a_stale_owner_cannot_renew(t: &Subject) -> Verdict {
    let key = t.key()?;
    let stale = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    t.holder(&key).await?;
    cannot_renew(t, &stale).await
}

/// Kind of fault: an attempt number taken for decoration: the token alone is not the holder.
pub(crate) async fn another_attempt_of_the_token_cannot_renew(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    cannot_renew(t, &owner.in_attempt(AttemptNumber::FIRST.next())).await
}

/// Kind of fault: the heartbeat writes after the completion.
pub(crate) async fn nobody_renews_what_is_completed(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    cannot_renew(t, &owner).await
}

async fn cannot_renew_after(t: &Subject, release: Release) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("release", &owner.release(release).await?, &ReleaseOutcome::Released)?;
    cannot_renew(t, &owner).await
}

pub(crate) async fn nobody_renews_after_failed(t: &Subject) -> Verdict {
    cannot_renew_after(t, Release::Failed).await
}

pub(crate) async fn nobody_renews_after_unknown(t: &Subject) -> Verdict {
    cannot_renew_after(t, Release::Unknown).await
}

pub(crate) async fn nobody_renews_after_not_started(t: &Subject) -> Verdict {
    cannot_renew_after(t, Release::NotStarted).await
}

/// Kind of fault: a renewal after the cancel refreshes a key with no holder (H-08).
pub(crate) async fn a_renewal_never_creates(t: &Subject) -> Verdict {
    cannot_renew(t, &t.caller(&t.key()?)).await?;
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).retention(t.window());
    let owner = owner.acquire().await?;
    t.until_gone(&key, t.window() * 2).await?;
    cannot_renew(t, &owner).await
}

pub(crate) async fn an_older_renewal_changes_nothing(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    owner.held(Renewal::number(1).leaving("one")).await?;
    owner.held(Renewal::number(5).leaving("five")).await?;
    let before = t.record(&owner.key).await?;
    for sequence in [4, 1] {
        let late = Renewal::number(sequence).lease(LONG * 3).leaving("late");
        let held = owner.held(late).await?;
        between("the lease", held, LONG / 2, LONG)?;
        same("the record", &t.record(&owner.key).await?, &before)?;
    }
    owner.held(Renewal::number(6).leaving("six")).await?;
    let record = held_record(t, &owner.key).await?;
    same("the checkpoint", &checkpoint_of(&record), &Some(&b"six"[..]))
}

pub(crate) async fn a_repeated_renewal_is_held(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    for _ in 0..3 {
        owner.held(Renewal::number(2).leaving("two")).await?;
    }
    let record = held_record(t, &owner.key).await?;
    same("the checkpoint", &checkpoint_of(&record), &Some(&b"two"[..]))?;
    same("the sequence", &sequence_of(&record), &Some(2))
}
