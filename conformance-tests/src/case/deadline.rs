//! Work within its lease: C61.

use idempotency_core::{Begun, Operation};

use super::{
    hands::{acquired, deadline_of, stored, tokens},
    prelude::*,
    stage::{LEASE, built, play},
};
use crate::script::Reply;

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
        let executor = built(slow)?;
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
        let executor = built(slow.store_deadline(LEASE * 4))?;
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
        let executor = built(slow.store_deadline(LEASE))?;
        let sent = stage.script.now();
        let guard = acquired(&executor, &stage).await?;
        guard.attempt().lost().await;
        let told = stage.script.now().saturating_sub(sent);
        let in_time = Holds(told <= LEASE + Duration::from_millis(200));
        check("the work", "told when its lease ends", in_time, told)
    })
    .await
}
