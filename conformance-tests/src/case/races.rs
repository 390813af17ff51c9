//! Two who act at once: whatever the order, it must have been an order. C60, C11, C13.

use std::future::Future;

use futures_util::future::try_join;
use idempotency_core::{
    ClaimOutcome, FinishOutcome, IdempotencyKey, Release, ReleaseOutcome, RenewOutcome,
};

use super::prelude::*;

/// Runs both, the one or the other first.
async fn race<A, B>(
    t: &Subject,
    one: impl Future<Output = Verdict<A>>,
    two: impl Future<Output = Verdict<B>>,
) -> Verdict<(A, B)> {
    if t.draw(fastrand::Rng::bool) {
        return try_join(one, two).await;
    }
    try_join(two, one).await.map(|(two, one)| (one, two))
}

async fn abandoned(t: &Subject) -> Verdict<(Caller, IdempotencyKey)> {
    let key = t.key()?;
    let lease = Duration::from_millis(5);
    let owner = t.caller(&key).lease(lease).acquire().await?;
    t.until_abandoned(&key, lease).await?;
    Ok((owner, key))
}

#[track_caller]
fn impossible(got: impl std::fmt::Debug) -> Halt {
    Halt::fail("a race", "answers that one order explains", format!("{got:?}"))
}

pub(crate) async fn completion_and_takeover_have_one_winner(t: &Subject) -> Verdict {
    for _ in 0..t.count(12) {
        let (owner, key) = abandoned(t).await?;
        let next = t.caller(&key);
        match race(t, owner.complete("first"), next.claim()).await? {
            (FinishOutcome::Done, ClaimOutcome::Replay(replay)) => {
                same("the response", &&replay.response[..], &&b"first"[..])?;
            }
            (FinishOutcome::Lost, ClaimOutcome::Acquired(acquired)) => {
                same("the attempt", &acquired.attempt.get(), &2)?;
                t.caller(&key).in_progress().await?;
            }
            other => return Err(impossible(other)),
        }
    }
    Ok(())
}

pub(crate) async fn renewal_and_takeover_have_one_winner(t: &Subject) -> Verdict {
    for _ in 0..t.count(12) {
        let (owner, key) = abandoned(t).await?;
        let next = t.caller(&key);
        match race(t, owner.renew(Renewal::number(1)), next.claim()).await? {
            (RenewOutcome::Held { .. }, ClaimOutcome::InProgress(running)) => {
                same("the attempt", &running.attempt.get(), &1)?;
            }
            (RenewOutcome::Lost, ClaimOutcome::Acquired(acquired)) => {
                same("the attempt", &acquired.attempt.get(), &2)?;
            }
            other => return Err(impossible(other)),
        }
    }
    Ok(())
}

pub(crate) async fn release_and_claim_have_an_order(t: &Subject) -> Verdict {
    for round in 0..t.count(12) {
        let owner = t.holder(&t.key()?).await?;
        let next = t.caller(&owner.key);
        let (release, attempt) = match round % 3 {
            0 => (Release::NotStarted, 1),
            1 => (Release::Failed, 2),
            _ => (Release::Unknown, 2),
        };
        match race(t, owner.release(release), next.claim()).await? {
            (ReleaseOutcome::Released, ClaimOutcome::InProgress(_)) => {
                same("the attempt", &next.acquired().await?.attempt.get(), &attempt)?;
            }
            (ReleaseOutcome::Released, ClaimOutcome::Acquired(acquired)) => {
                same("the attempt", &acquired.attempt.get(), &attempt)?;
                t.caller(&owner.key).in_progress().await?;
            }
            other => return Err(impossible(other)),
        }
    }
    Ok(())
}

pub(crate) async fn completion_and_release_have_an_order(t: &Subject) -> Verdict {
    for _ in 0..t.count(12) {
        let owner = t.holder(&t.key()?).await?;
        let race = race(t, owner.complete("answer"), owner.release(Release::Failed)).await?;
        match race {
            // released before it was completed (C13), or after (C27)
            (FinishOutcome::Done, ReleaseOutcome::Released | ReleaseOutcome::Lost) => {
                same("the response", &&owner.replayed().await?.response[..], &&b"answer"[..])?;
            }
            other => return Err(impossible(other)),
        }
    }
    Ok(())
}

/// Two completions of one attempt with two answers, which no honest caller sends: one stays.
pub(crate) async fn of_two_completions_at_once_one_stays(t: &Subject) -> Verdict {
    for _ in 0..t.count(12) {
        let owner = t.holder(&t.key()?).await?;
        let both = race(t, owner.complete("one"), owner.complete("two")).await?;
        same("both", &both, &(FinishOutcome::Done, FinishOutcome::Done))?;
        let first = owner.replayed().await?.response;
        let known = [&b"one"[..], b"two"].contains(&&first[..]);
        check("the response", "one of both", Holds(known), &first)?;
        same("complete", &owner.complete("three").await?, &FinishOutcome::Done)?;
        same("the response", &owner.replayed().await?.response, &first)?;
    }
    Ok(())
}

/// Kind of fault: reads from a replica that lags behind (H-49).
pub(crate) async fn whoever_is_answered_is_seen_by_all(t: &Subject) -> Verdict {
    for _ in 0..t.count(12) {
        let owner = t.holder(&t.key()?).await?;
        let key = &owner.key;
        same("the token", &held_record(t, key).await?.token, &owner.token)?;
        t.caller(key).in_progress().await?;
        owner.held(Renewal::number(1).leaving("left")).await?;
        let record = held_record(t, key).await?;
        same("the checkpoint", &checkpoint_of(&record), &Some(&b"left"[..]))?;
        same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
        t.caller(key).replayed().await?;
    }
    Ok(())
}

pub(crate) async fn whoever_is_answered_is_seen_through_other_connections(t: &Subject) -> Verdict {
    let second = t.second().await?;
    for _ in 0..t.count(12) {
        let owner = t.holder(&t.key()?).await?;
        let elsewhere = owner.clone().via(Arc::clone(&second));
        t.caller(&owner.key).via(Arc::clone(&second)).in_progress().await?;
        elsewhere.held(Renewal::number(1).leaving("left")).await?;
        let record = held_record(t, &owner.key).await?;
        same("the checkpoint", &checkpoint_of(&record), &Some(&b"left"[..]))?;
        same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
        let replay = t.caller(&owner.key).via(Arc::clone(&second)).replayed().await?;
        same("the response", &&replay.response[..], &&b"answer"[..])?;
    }
    Ok(())
}
