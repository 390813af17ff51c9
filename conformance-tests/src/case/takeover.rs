//! The next attempt: C07, C08.

use idempotency_core::{AttemptNumber, ClaimOutcome, Release, ReleaseOutcome};

use super::prelude::*;

/// Kind of fault: a live owner mistaken for dead (H-03). A take-over can only be answered when the
/// whole lease has passed since the claim was sent.
pub(crate) async fn a_lease_is_not_over_before_its_time(t: &Subject) -> Verdict {
    let key = t.key()?;
    let sent = t.now();
    t.caller(&key).lease(t.window()).acquire().await?;
    let stranger = &t.caller(&key);
    while let ClaimOutcome::InProgress(_) = stranger.claim().await? {
        let overdue = t.window() + t.late() + t.patience();
        let waited = t.since(sent);
        check("the lease", "over soon after its end", Holds(waited < overdue), waited)?;
        t.elapse(Duration::from_millis(1)).await;
    }
    let rule = "not over before its end";
    let waited = t.since(sent);
    check("the lease", rule, Holds(waited >= t.window()), waited)
}

/// Kind of fault: a killed process locks the key for the whole retention (H-02).
pub(crate) async fn an_abandoned_key_is_taken_over_soon(t: &Subject) -> Verdict {
    let key = t.key()?;
    t.caller(&key).lease(t.window()).acquire().await?;
    t.wait_out(t.window()).await;
    let stranger = &t.caller(&key);
    let attempt = t.soon("a take-over", || async move {
        Ok(match stranger.claim().await? {
            ClaimOutcome::Acquired(acquired) => Some(acquired.attempt),
            _ => None,
        })
    });
    same("the attempt", &attempt.await?.get(), &2)
}

pub(crate) async fn a_takeover_holds_the_key(t: &Subject) -> Verdict {
    let key = t.key()?;
    t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    let second = t.holder(&key).await?;
    let record = held_record(t, &key).await?;
    same("the token", &record.token, &second.token)?;
    same("the sequence", &sequence_of(&record), &Some(0))?;
    t.caller(&key).in_progress().await?;
    second.held(Renewal::number(1)).await.map(drop)
}

pub(crate) async fn every_takeover_counts(t: &Subject) -> Verdict {
    let key = t.key()?;
    let mut holder = t.holder(&key).await?;
    for expected in 2..=5 {
        let release = if expected % 2 == 0 { Release::Failed } else { Release::Unknown };
        same("release", &holder.release(release).await?, &ReleaseOutcome::Released)?;
        holder = t.holder(&key).await?;
        same("the attempt", &holder.attempt.get(), &expected)?;
    }
    Ok(())
}

pub(crate) async fn a_takeover_gets_the_last_checkpoint(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.caller(&key).lease(t.window()).acquire().await?;
    for (number, checkpoint) in [(1, "first"), (2, "last")] {
        let renewal = Renewal::number(number).leaving(checkpoint).lease(t.window());
        first.held(renewal).await?;
    }
    t.until_abandoned(&key, t.window()).await?;
    let acquired = t.caller(&key).acquired().await?;
    same("the checkpoint", &acquired.checkpoint.as_deref(), &Some(&b"last"[..]))
}

pub(crate) async fn a_checkpoint_outlives_attempts_that_left_none(t: &Subject) -> Verdict {
    let key = t.key()?;
    let mut holder = t.holder(&key).await?;
    holder.held(Renewal::number(1).leaving("left")).await?;
    for release in [Release::Failed, Release::Unknown, Release::NotStarted] {
        same("release", &holder.release(release).await?, &ReleaseOutcome::Released)?;
        let next = t.caller(&key);
        let acquired = next.acquired().await?;
        same("the checkpoint", &acquired.checkpoint.as_deref(), &Some(&b"left"[..]))?;
        holder = next.in_attempt(acquired.attempt);
    }
    Ok(())
}

pub(crate) async fn a_failed_key_is_taken_at_once_even_by_those_who_refuse(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.holder(&key).await?;
    same("release", &first.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    let second = t.caller(&key).refusing().acquired().await?;
    same("the attempt", &second.attempt.get(), &2)
}

pub(crate) async fn an_unknown_outcome_is_taken_over_at_once(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.holder(&key).await?;
    same("release", &first.release(Release::Unknown).await?, &ReleaseOutcome::Released)?;
    same("the attempt", &t.caller(&key).acquired().await?.attempt.get(), &2)
}

pub(crate) async fn a_takeover_remembers_when_the_first_attempt_began(t: &Subject) -> Verdict {
    let key = t.key()?;
    let began = t.now();
    let first = t.holder(&key).await?;
    t.elapse(Duration::from_millis(50)).await;
    same("release", &first.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    let acquired = t.caller(&key).acquired().await?;
    let low = Duration::from_millis(50).saturating_sub(t.late());
    let high = t.since(began) + t.late();
    between("first attempt ago", acquired.first_attempt_ago, low, high)
}

pub(crate) async fn refusing_tells_what_is_abandoned(t: &Subject) -> Verdict {
    let key = t.key()?;
    let claimed = t.now();
    let first = t.caller(&key).lease(t.window()).acquire().await?;
    first.held(Renewal::number(1).leaving("left").lease(t.window())).await?;
    t.until_abandoned(&key, t.window()).await?;
    let before = t.record(&key).await?;
    t.elapse(Duration::from_millis(30)).await;
    let abandoned = t.caller(&key).refusing().abandoned().await?;
    same("the attempt", &abandoned.attempt, &AttemptNumber::FIRST)?;
    same("the checkpoint", &abandoned.checkpoint.as_deref(), &Some(&b"left"[..]))?;
    let low = Duration::from_millis(30).saturating_sub(t.late());
    between("since", abandoned.since, low, t.since(claimed).saturating_sub(t.window()) + t.late())?;
    same("the record", &t.record(&key).await?, &before)
}

pub(crate) async fn refusing_tells_of_an_unknown_outcome_at_once(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.holder(&key).await?;
    first.held(Renewal::number(1).leaving("left")).await?;
    let released = t.now();
    same("release", &first.release(Release::Unknown).await?, &ReleaseOutcome::Released)?;
    let before = t.record(&key).await?;
    let abandoned = t.caller(&key).refusing().abandoned().await?;
    same("the attempt", &abandoned.attempt, &AttemptNumber::FIRST)?;
    same("the checkpoint", &abandoned.checkpoint.as_deref(), &Some(&b"left"[..]))?;
    let since = t.since(released) + t.late();
    between("since", abandoned.since, Duration::ZERO, since)?;
    same("the record", &t.record(&key).await?, &before)
}
