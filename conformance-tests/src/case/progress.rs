//! A live claim of somebody else: C04. And telling those who wait.

use idempotency_core::{AttemptNumber, FinishOutcome};

use super::prelude::*;

pub(crate) async fn live_claim_of_another_is_in_progress(t: &Subject) -> Verdict {
    let key = t.key()?;
    let before = t.now();
    t.holder(&key).await?;
    t.elapse(Duration::from_millis(30)).await;
    let running = t.caller(&key).in_progress().await?;
    let spent = t.since(before) + t.late();
    same("the attempt", &running.attempt, &AttemptNumber::FIRST)?;
    let ran = Duration::from_millis(30).saturating_sub(t.late());
    between("running for", running.running_for, ran, spent)?;
    between("its lease", running.lease_remaining, LONG.saturating_sub(spent), LONG)
}

pub(crate) async fn live_claim_is_in_progress_for_those_who_refuse_too(t: &Subject) -> Verdict {
    let key = t.key()?;
    t.holder(&key).await?;
    t.caller(&key).refusing().in_progress().await.map(drop)
}

/// Kind of fault: a second claim silently overwrites the first (H-01), and a refused duplicate
/// clears the owner's claim (H-05).
pub(crate) async fn refused_claims_change_nothing(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.holder(&key).await?;
    owner.held(Renewal::number(2).leaving("left")).await?;
    let before = t.record(&key).await?;
    for lease in [Duration::from_millis(1), LONG * 2] {
        let stranger = t.caller(&key).lease(lease).retention(lease);
        stranger.in_progress().await?;
        stranger.refusing().in_progress().await?;
    }
    same("the record", &t.record(&key).await?, &before)?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)
}

pub(crate) async fn an_attempt_that_was_taken_over_runs_since_the_takeover(t: &Subject) -> Verdict {
    let key = t.key()?;
    t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    let taken = t.now();
    t.holder(&key).await?;
    let running = t.caller(&key).in_progress().await?;
    same("the attempt", &running.attempt.get(), &2)?;
    let spent = t.since(taken) + t.late();
    between("running for", running.running_for, Duration::ZERO, spent)
}

pub(crate) async fn a_watcher_is_told_and_changes_nothing(t: &Subject) -> Verdict {
    let watch = t.watch()?;
    let key = t.key()?;
    let owner = t.holder(&key).await?;
    let before = t.record(&key).await?;
    let watching = watch.watch(&key).await;
    let mut watching = watching.map_err(|error| Halt::error("watch", &error))?;
    t.caller(&key).in_progress().await?;
    same("the record", &t.record(&key).await?, &before)?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    let told = tokio::time::timeout(Duration::from_secs(5), watching.changed()).await;
    let in_time = Holds(matches!(told, Ok(Ok(()))));
    check("a watched completion", "to be told within 5 s", in_time, told)
}
