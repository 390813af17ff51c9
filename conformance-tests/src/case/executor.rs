//! The executor, over a scripted store: C47, C61, C62.

use std::collections::HashSet;

use idempotency_core::{
    Answer, Begun, ClaimGuard, ClaimToken, Idempotency, IdempotencyKey, Operation, Recorded,
    Release,
};

use super::{
    prelude::*,
    stage::{LEASE, Stage, at_once, play},
};
use crate::{
    script::{Reply, Script, Sent},
    subject::named,
};

async fn acquired(executor: &Idempotency, stage: &Stage) -> Verdict<ClaimGuard> {
    acquired_key(executor, stage, &stage.key).await
}

async fn acquired_key(
    executor: &Idempotency,
    stage: &Stage,
    key: &IdempotencyKey,
) -> Verdict<ClaimGuard> {
    match executor.begin(key, stage.fingerprint).await {
        Ok(Begun::Acquired(guard)) => Ok(guard),
        other => Err(Halt::fail("begin", "Acquired", format!("{other:?}"))),
    }
}

fn tokens(sent: &[Sent]) -> HashSet<ClaimToken> {
    sent.iter().map(|sent| sent.token).collect()
}

async fn stored(guard: ClaimGuard) -> Verdict {
    match guard.complete(Answer::bytes("answer")).await {
        Recorded::Stored => Ok(()),
        other => Err(Halt::fail("complete", "Stored", format!("{other:?}"))),
    }
}

pub(crate) async fn every_attempt_has_a_token_of_its_own(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        let executor = stage.executor()?;
        for number in 0..50 {
            let key = named("conformance", &number.to_string())?;
            stored(acquired_key(&executor, &stage, &key).await?).await?;
        }
        let tokens = tokens(&stage.script.sent(Operation::Claim));
        same("the tokens of 50 attempts", &tokens.len(), &50)?;
        for byte in 0..16 {
            let values = tokens.iter().filter_map(|token| token.as_bytes().get(byte));
            let values: HashSet<_> = values.collect();
            let random = Holds(values.len() > 10);
            check("a byte of the tokens", "random", random, (byte, values.len()))?;
        }
        Ok(())
    })
    .await
}

/// Kind of fault: a token made of what the client sent, so that a client can act as the owner.
pub(crate) async fn tokens_do_not_follow_from_the_request(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        for _ in 0..10 {
            let guard = acquired(&stage.executor()?, &stage).await?;
            drop(guard);
            stage.script.forget();
        }
        let claims = stage.script.sent(Operation::Claim);
        same("the tokens for one request", &tokens(&claims).len(), &10)
    })
    .await
}

pub(crate) async fn a_repeated_try_has_the_same_token(t: &Subject) -> Verdict {
    const fn down_at_first(operation: Operation, number: usize) -> Reply {
        match operation {
            Operation::Claim if number < 2 => Reply::Down,
            _ => Reply::Now,
        }
    }
    play(t, down_at_first, |stage| async move {
        stored(acquired(&stage.executor()?, &stage).await?).await?;
        let claims = stage.script.sent(Operation::Claim);
        same("tries", &claims.len(), &3)?;
        same("the tokens", &tokens(&stage.script.log()).len(), &1)
    })
    .await
}

pub(crate) async fn a_token_that_was_given_back_is_never_used_again(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        let executor = stage.executor()?;
        let mut seen = HashSet::new();
        for release in [Release::Failed, Release::Unknown, Release::Failed] {
            let before = stage.script.log().len();
            let guard = acquired(&executor, &stage).await?;
            let released = guard.release(release).await;
            check("release", "an answer", Holds(released.is_ok()), released)?;
            stage.pass(LEASE * 2).await;
            let log = stage.script.log().split_off(before);
            let tokens = tokens(&log);
            same("the tokens of one attempt", &tokens.len(), &1)?;
            let last = log.last().map(|sent| sent.operation);
            same("the last that was sent", &last, &Some(Operation::Release))?;
            for token in tokens {
                check("a token", "never used before", Holds(seen.insert(token)), token)?;
            }
        }
        Ok(())
    })
    .await
}

/// The reply to the claim is lost; when its repetition is answered, little is left of the lease.
const fn first_reply_lost(operation: Operation, number: usize) -> Reply {
    match (operation, number) {
        (Operation::Claim, 0) => Reply::Lost,
        _ => Reply::Now,
    }
}

/// Kind of fault: work that starts after its deadline.
pub(crate) async fn a_lease_that_is_nearly_over_is_renewed_before_work_starts(
    t: &Subject,
) -> Verdict {
    play(t, first_reply_lost, |stage| async move {
        let slow = stage.builder()?.store_timeout(LEASE / 2).heartbeat(LEASE / 2);
        let slow = slow.store_deadline(LEASE * 3);
        let executor = super::stage::built(slow)?;
        // until the first try times out, half of the lease is gone; a second one takes the rest
        let guard = acquired(&executor, &stage).await?;
        let started = stage.script.now();
        let deadline = deadline_of(&stage.script);
        check("work", "begun within its lease", Holds(started < deadline), (started, deadline))?;
        let left = deadline.saturating_sub(started);
        check("work", "begun with a lease to work in", Holds(left > LEASE / 3), left)?;
        stored(guard).await
    })
    .await
}

/// Until when the record was held, by what the executor can know: the last claim or renewal that was
/// answered, counted from before it was sent.
fn deadline_of(script: &Script) -> Duration {
    let log = script.log();
    let claim = log.iter().find(|sent| sent.operation == Operation::Claim);
    let renewed =
        log.iter().filter(|sent| sent.operation == Operation::Renew && sent.answered.is_some());
    let last = renewed.map(|sent| sent.at).chain(claim.map(|sent| sent.at)).max();
    last.unwrap_or_default() + LEASE
}

/// The record is lost while the reply to the claim is on its way, and somebody else takes the key.
/// The renewal before the work says so; a new claim, with a new token, finds the other one working.
pub(crate) async fn work_does_not_start_under_a_claim_that_is_lost(t: &Subject) -> Verdict {
    const fn lost_then_slow(operation: Operation, number: usize) -> Reply {
        match (operation, number) {
            (Operation::Claim, 0) => Reply::Lost,
            (Operation::Claim, 1) => Reply::After(Duration::from_secs(10)),
            _ => Reply::Now,
        }
    }
    play(t, lost_then_slow, |stage| async move {
        let slow = stage.builder()?.store_timeout(LEASE / 2).heartbeat(LEASE / 2);
        let executor = super::stage::built(slow.store_deadline(LEASE * 4))?;
        let other = stage.clone();
        let rival = tokio::spawn(async move {
            other.pass(LEASE * 2 / 3).await;
            other.script.forget();
            acquired(&other.executor()?, &other).await
        });
        let begun = executor.begin(&stage.key, stage.fingerprint).await;
        let panicked = |error: tokio::task::JoinError| {
            Err(Halt::fail("the rival", "no panic", error.to_string()))
        };
        let guard = rival.await.unwrap_or_else(panicked)?;
        let refused = Holds(matches!(begun, Ok(Begun::InProgress(_))));
        check("begin", "InProgress: the rival works", refused, begun)?;
        let tokens = tokens(&stage.script.sent(Operation::Claim)).len();
        same("tokens: the lost one, the rival's, a new one", &tokens, &3)?;
        stored(guard).await
    })
    .await
}

/// Kind of fault: the lease counts from the reply, so that a slow reply makes it longer than it is.
pub(crate) async fn the_work_is_told_no_later_than_its_lease_ends(t: &Subject) -> Verdict {
    const fn slow_claim_then_down(operation: Operation, _: usize) -> Reply {
        match operation {
            Operation::Claim => Reply::After(Duration::from_secs(10)),
            Operation::Renew => Reply::Down,
            _ => Reply::Now,
        }
    }
    play(t, slow_claim_then_down, |stage| async move {
        let slow = stage.builder()?.store_timeout(LEASE / 2);
        let executor = super::stage::built(slow.store_deadline(LEASE))?;
        let sent = stage.script.now();
        let guard = acquired(&executor, &stage).await?;
        guard.attempt().lost().await;
        let told = stage.script.now().saturating_sub(sent);
        let in_time = Holds(told <= LEASE + Duration::from_millis(200));
        check("the work", "told when its lease ends", in_time, told)
    })
    .await
}

/// Renewals whose replies take a while.
const fn slow_renewals(operation: Operation, _: usize) -> Reply {
    match operation {
        Operation::Renew => Reply::After(Duration::from_secs(1)),
        _ => Reply::Now,
    }
}

pub(crate) async fn at_most_one_renewal_is_on_its_way(t: &Subject) -> Verdict {
    play(t, slow_renewals, |stage| async move {
        let executor = stage.executor()?;
        let guard = acquired(&executor, &stage).await?;
        let attempt = guard.attempt().clone();
        let four = (0..4).map(|number| {
            let attempt = attempt.clone();
            async move { attempt.save_checkpoint(vec![number]).await }
        });
        let saved = futures_util::future::join_all(four);
        let (saved, ()) = futures_util::future::join(saved, stage.pass(LEASE * 2)).await;
        let all = Holds(saved.iter().all(Result::is_ok));
        check("four checkpoints at once", "saved", all, &saved)?;
        stored(guard).await?;
        let renewals = stage.script.sent(Operation::Renew).len();
        check("renewals", "at least eight", Holds(renewals >= 8), renewals)?;
        same("renewals at once", &stage.script.most_renewals_at_once(), &1)
    })
    .await
}

/// Nothing is sent beside `last`, and no renewal after it.
fn stands_alone(script: &Script, last: Operation) -> Verdict {
    let log = script.log();
    let Some(end) = log.iter().find(|sent| sent.operation == last) else {
        return Err(Halt::fail("the log", format!("{last} sent"), format!("{log:?}")));
    };
    let renewals = log.iter().filter(|sent| sent.operation == Operation::Renew);
    for renewal in renewals {
        let before = renewal.answered.is_some_and(|answered| answered <= end.at);
        check("a renewal", "answered before the end is sent", Holds(before), (renewal, end))?;
    }
    Ok(())
}

/// Kind of fault: a heartbeat that is alive during the completion.
pub(crate) async fn no_renewal_is_beside_a_completion(t: &Subject) -> Verdict {
    play(t, slow_renewals, |stage| async move {
        let guard = acquired(&stage.executor()?, &stage).await?;
        // a third of the lease later a renewal is on its way
        stage.pass(LEASE / 3 + Duration::from_millis(300)).await;
        stored(guard).await?;
        stage.pass(LEASE * 2).await;
        stands_alone(&stage.script, Operation::Complete)
    })
    .await
}

pub(crate) async fn no_renewal_is_beside_a_release(t: &Subject) -> Verdict {
    play(t, slow_renewals, |stage| async move {
        let guard = acquired(&stage.executor()?, &stage).await?;
        stage.pass(LEASE / 3 + Duration::from_millis(300)).await;
        let released = guard.release(Release::Failed).await;
        check("release", "an answer", Holds(released.is_ok()), released)?;
        stage.pass(LEASE * 2).await;
        stands_alone(&stage.script, Operation::Release)
    })
    .await
}

pub(crate) async fn nothing_is_completed_after_lost(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        let guard = acquired(&stage.executor()?, &stage).await?;
        stage.script.forget();
        let attempt = guard.attempt().clone();
        let told =
            futures_util::future::select(Box::pin(attempt.lost()), Box::pin(stage.pass(LEASE * 2)));
        told.await;
        check("the work", "told that it is lost", Holds(attempt.is_lost()), &attempt)?;
        let recorded = guard.complete(Answer::bytes("late")).await;
        let lost = Holds(matches!(recorded, Recorded::Lost));
        check("complete", "Lost", lost, recorded)?;
        same("completions sent", &stage.script.sent(Operation::Complete).len(), &0)
    })
    .await
}

pub(crate) async fn tries_of_a_completion_stop_when_the_lease_ends(t: &Subject) -> Verdict {
    const fn completions_down(operation: Operation, _: usize) -> Reply {
        match operation {
            Operation::Complete => Reply::Down,
            _ => Reply::Now,
        }
    }
    play(t, completions_down, |stage| async move {
        let guard = acquired(&stage.executor()?, &stage).await?;
        let recorded = guard.complete(Answer::bytes("answer")).await;
        let unrecorded = Holds(matches!(recorded, Recorded::Unrecorded(_)));
        check("complete", "Unrecorded", unrecorded, recorded)?;
        stage.pass(LEASE).await;
        let tries = stage.script.sent(Operation::Complete);
        check("tries", "more than one", Holds(tries.len() > 1), tries.len())?;
        let deadline = deadline_of(&stage.script) + Duration::from_millis(200);
        let late: Vec<_> = tries.iter().filter(|sent| sent.at > deadline).collect();
        check("tries", "none after the lease", Holds(late.is_empty()), late)
    })
    .await
}
