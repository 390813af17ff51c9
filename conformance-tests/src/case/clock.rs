//! One clock decides: C33.

use idempotency_core::{ClaimOutcome, FinishOutcome, State};

use super::prelude::*;

pub(crate) async fn the_stores_clock_keeps_time(t: &Subject) -> Verdict {
    let pause = Duration::from_millis(120);
    let sent = t.now();
    let first = t.holder(&t.key()?).await?;
    let answered = t.now();
    t.elapse(pause).await;
    let second = t.holder(&t.key()?).await?;
    let total = t.since(sent);
    let shortest = total.saturating_sub(answered.saturating_sub(sent)).min(pause);
    let first = held_record(t, &first.key).await?.claimed_at;
    let second = held_record(t, &second.key).await?.claimed_at;
    let passed = second.since(first);
    between(
        "the time between two claims",
        passed,
        shortest.saturating_sub(t.late()),
        total + t.late(),
    )
}

/// Kind of fault: deadlines out of two clocks or two time zones (H-54, H-61).
pub(crate) async fn every_moment_of_a_record_is_of_one_clock(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    owner.held(Renewal::number(1)).await?;
    let record = held_record(t, &owner.key).await?;
    let State::InProgress { lease_until, .. } = record.state else {
        return Err(Halt::fail("the record", "in progress", format!("{record:?}")));
    };
    let slack = t.late() + Duration::from_secs(30);
    same("the first claim", &record.first_claimed_at, &record.claimed_at)?;
    between("the lease", lease_until.since(record.claimed_at), LONG, LONG + slack)?;
    between("the retention", record.expires_at.since(lease_until), LONG, LONG + t.late())?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    let record = held_record(t, &owner.key).await?;
    let State::Completed { at, .. } = record.state else {
        return Err(Halt::fail("the record", "completed", format!("{record:?}")));
    };
    let ordered = Holds(at >= record.claimed_at);
    check("the completion", "not before the claim", ordered, (at, record.claimed_at))?;
    between("completed after", at.since(record.claimed_at), Duration::ZERO, slack)?;
    between("the retention", record.expires_at.since(at), LONG, LONG + t.late())
}

pub(crate) async fn two_connections_agree_on_the_time(t: &Subject) -> Verdict {
    let second = t.second().await?;
    let begun = t.now();
    let key = t.key()?;
    t.holder(&key).await?;
    let running = t.caller(&key).via(second).in_progress().await?;
    let spent = t.since(begun) + t.late();
    between("running for", running.running_for, Duration::ZERO, spent)?;
    between("its lease", running.lease_remaining, LONG.saturating_sub(spent), LONG + t.late())
}

/// Kind of fault: each process decides by its own clock.
pub(crate) async fn a_second_connection_takes_over_neither_early_nor_late(t: &Subject) -> Verdict {
    let second = t.second().await?;
    for (claims, takes) in [(t.store(), Arc::clone(&second)), (second, t.store())] {
        let key = t.key()?;
        let sent = t.now();
        t.caller(&key).via(claims).lease(t.window()).acquire().await?;
        let stranger = t.caller(&key).via(takes);
        while let ClaimOutcome::InProgress(_) = stranger.claim().await? {
            let waited = t.since(sent);
            let longest = t.window() + t.late() + t.patience();
            check("the lease", "over soon after its end", Holds(waited < longest), waited)?;
            t.elapse(Duration::from_millis(1)).await;
        }
        let waited = t.since(sent);
        check("the lease", "not over early", Holds(waited >= t.window()), waited)?;
    }
    Ok(())
}
