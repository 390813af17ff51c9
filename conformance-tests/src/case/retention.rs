//! How long records live: C30 to C32.

use idempotency_core::{
    FinishOutcome, IdempotencyKey, Lease, Release, ReleaseOutcome, Retention, Timestamp,
};

use super::prelude::*;

/// Everything about the key must say that there is nothing.
async fn counts_as_absent(t: &Subject, owner: &Caller) -> Verdict {
    same("lookup", &t.record(&owner.key).await?, &None)?;
    let next = t.caller(&owner.key).asking("something else").refusing();
    same("the attempt", &next.acquired().await?.attempt.get(), &1)
}

/// Kind of fault: the server deletes expired records late (H-51).
pub(crate) async fn a_completed_key_is_absent_after_its_retention(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).retention(t.window()).acquire().await?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    t.until_gone(&key, t.window()).await?;
    counts_as_absent(t, &owner).await
}

pub(crate) async fn a_released_key_is_absent_after_its_retention(t: &Subject) -> Verdict {
    for release in [Release::Failed, Release::Unknown] {
        let key = t.key()?;
        let owner = t.caller(&key).retention(t.window()).acquire().await?;
        same("release", &owner.release(release).await?, &ReleaseOutcome::Released)?;
        t.until_gone(&key, t.window()).await?;
        counts_as_absent(t, &owner).await?;
    }
    Ok(())
}

pub(crate) async fn an_abandoned_key_is_absent_after_its_retention(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).retention(t.window());
    let owner = owner.acquire().await?;
    t.until_gone(&key, t.window() * 2).await?;
    counts_as_absent(t, &owner).await
}

/// Polls from `since` on until lookup finds nothing, and fails when that is before `lives` is over.
async fn lives(t: &Subject, key: &IdempotencyKey, since: Duration, lives: Duration) -> Verdict {
    while t.record(key).await?.is_some() {
        let overdue = lives + t.late() + t.patience();
        let age = t.since(since);
        check("the record", "gone soon after its end", Holds(age < overdue), age)?;
        t.elapse(Duration::from_millis(2)).await;
    }
    let age = t.since(since);
    check("the record", &format!("there for {lives:?}"), Holds(age >= lives), age)
}

pub(crate) async fn in_progress_lives_until_lease_and_retention_end(t: &Subject) -> Verdict {
    let key = t.key()?;
    let since = t.now();
    t.caller(&key).lease(t.window()).retention(t.window()).acquire().await?;
    lives(t, &key, since, t.window() * 2).await
}

pub(crate) async fn a_renewal_moves_the_end_of_the_record(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).retention(t.window());
    let owner = owner.acquire().await?;
    t.elapse(t.window() / 2).await;
    let since = t.now();
    owner.held(Renewal::number(1).lease(t.window() * 2)).await?;
    lives(t, &key, since, t.window() * 3).await
}

pub(crate) async fn released_lives_until_its_retention_ends(t: &Subject) -> Verdict {
    for release in [Release::Failed, Release::Unknown] {
        let key = t.key()?;
        let owner = t.caller(&key).retention(t.window()).acquire().await?;
        t.elapse(t.window() / 4).await;
        let since = t.now();
        same("release", &owner.release(release).await?, &ReleaseOutcome::Released)?;
        lives(t, &key, since, t.window()).await?;
    }
    Ok(())
}

pub(crate) async fn completed_lives_until_its_retention_ends(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).retention(t.window());
    let owner = owner.acquire().await?;
    t.elapse(t.window() / 4).await;
    let since = t.now();
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    lives(t, &key, since, t.window()).await
}

pub(crate) async fn the_record_keeps_the_retention_of_its_claim(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).retention(LONG * 7).acquire().await?;
    owner.held(Renewal::number(1)).await?;
    same("the retention", &held_record(t, &key).await?.retention.get(), &(LONG * 7))?;
    same("release", &owner.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    same("the retention", &held_record(t, &key).await?.retention.get(), &(LONG * 7))
}

/// What the types let through, at their edges.
fn durations(longest: Duration) -> Vec<Duration> {
    let tricky = [
        Duration::from_micros(400),
        Duration::from_millis(1),
        Duration::from_millis(999),
        Duration::from_micros(999_001),
        Duration::from_millis(1_500),
        Duration::from_secs(u64::from(u32::MAX) / 1_000),
        Duration::from_hours(24),
        Duration::from_hours(3_650 * 24),
    ];
    let fits = tricky.into_iter().filter(|tricky| *tricky < longest);
    fits.chain([longest]).collect()
}

/// `expires_at` must be `rest` after now, or up to what has passed since `sent` less.
fn ends_in(what: &str, rest: Duration, at: Timestamp, from: Timestamp, late: Duration) -> Verdict {
    let got = at.since(from);
    between(what, got, rest, rest + late)
}

/// Kind of fault: zero, tiny and fractional TTL (H-47).
pub(crate) async fn every_lease_the_type_allows_is_kept(t: &Subject) -> Verdict {
    for duration in durations(Lease::MAX) {
        let key = t.key()?;
        let acquired = t.caller(&key).lease(duration).acquired().await?;
        between("the lease", acquired.lease_remaining, Duration::ZERO, duration + t.late() + MS)?;
        let record = held_record(t, &key).await?;
        let (from, until) = (record.claimed_at, record.expires_at);
        ends_in("lease and retention", duration + LONG, until, from, t.late() + MS)?;
    }
    Ok(())
}

const MS: Duration = Duration::from_millis(1);

pub(crate) async fn every_retention_the_type_allows_is_kept(t: &Subject) -> Verdict {
    for duration in durations(Retention::MAX) {
        let key = t.key()?;
        let owner = t.caller(&key).retention(duration).acquire().await?;
        let record = held_record(t, &key).await?;
        let (from, until) = (record.claimed_at, record.expires_at);
        ends_in("lease and retention", LONG + duration, until, from, t.late() + MS)?;
        same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
        if duration >= Duration::from_mins(1) {
            let rest = t.caller(&key).replayed().await?.retention_remaining;
            between(
                "the rest",
                rest,
                duration.saturating_sub(Duration::from_secs(30)),
                duration + MS,
            )?;
        }
    }
    Ok(())
}

/// Kind of fault: durations that a driver rounds down to nothing.
pub(crate) async fn the_shortest_durations_are_rounded_up(t: &Subject) -> Verdict {
    for duration in [Duration::from_nanos(1), Duration::from_micros(400), MS] {
        let key = t.key()?;
        let since = t.now();
        let caller = t.caller(&key).lease(duration).retention(duration);
        let owner = caller.acquire().await?;
        lives(t, &key, since, MS * 2).await?;
        let outcome = owner.complete("answer").await?;
        same("complete", &outcome, &FinishOutcome::Restored)?;
    }
    Ok(())
}

pub(crate) async fn zero_and_endless_durations_are_refused(_: &Subject) -> Verdict {
    for refused in [Duration::ZERO, Duration::MAX, Retention::MAX + Duration::from_nanos(1)] {
        let accepted = (Lease::new(refused).ok(), Retention::new(refused).ok());
        same("a duration", &accepted, &(None, None))?;
    }
    Ok(())
}
