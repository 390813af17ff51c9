//! Futures that are dropped at every await point: C45, C46.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use idempotency_core::{ClaimOutcome, FinishOutcome, Release, ReleaseOutcome};

use super::prelude::*;

/// Polls a future so many times and drops it then: none when it had not ended.
struct CutOff<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
    polls_left: usize,
}

impl<T> Future for CutOff<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if self.polls_left == 0 {
            return Poll::Ready(None);
        }
        self.polls_left -= 1;
        match self.future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls_left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn cut_off<'a, T>(
    polls: usize,
    future: impl Future<Output = Verdict<T>> + Send + 'a,
) -> CutOff<'a, Verdict<T>> {
    CutOff { future: Box::pin(future), polls_left: polls }
}

/// No store has that many await points in one operation.
const MOST_POLLS: usize = 200;

/// A whole life of another key: the store, its connections and its locks still work.
async fn still_works(t: &Subject) -> Verdict {
    let life = async {
        let owner = t.holder(&t.key()?).await?;
        owner.held(Renewal::number(1)).await?;
        same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
        owner.replayed().await.map(drop)
    };
    let what = "the store after a dropped future";
    let stuck = |_| Err(Halt::fail(what, "an answer within 10 s", "none"));
    tokio::time::timeout(Duration::from_secs(10), life).await.unwrap_or_else(stuck)
}

/// The operation again, as its caller would repeat it: it must end.
async fn again<T>(work: impl Future<Output = Verdict<T>>) -> Verdict<T> {
    let stuck = |_| Err(Halt::fail("the operation again", "an answer within 10 s", "none"));
    tokio::time::timeout(Duration::from_secs(10), work).await.unwrap_or_else(stuck)
}

pub(crate) async fn a_dropped_claim_leaves_the_key_claimable_by_its_token(t: &Subject) -> Verdict {
    for polls in 0..MOST_POLLS {
        let caller = t.caller(&t.key()?);
        let done = cut_off(polls, caller.claim()).await.transpose()?;
        let acquired = again(caller.acquired()).await?;
        same("the attempt", &acquired.attempt.get(), &1)?;
        same("complete", &again(caller.complete("x")).await?, &FinishOutcome::Done)?;
        still_works(t).await?;
        if done.is_some() {
            return Ok(());
        }
    }
    Err(endless())
}

fn endless() -> Halt {
    Halt::fail("an operation", "to end", format!("{MOST_POLLS} await points"))
}

pub(crate) async fn a_dropped_completion_can_be_repeated(t: &Subject) -> Verdict {
    for polls in 0..MOST_POLLS {
        let owner = t.holder(&t.key()?).await?;
        let done = cut_off(polls, owner.complete("answer")).await.transpose()?;
        let seen = again(t.caller(&owner.key).claim()).await?;
        let allowed = matches!(seen, ClaimOutcome::InProgress(_) | ClaimOutcome::Replay(_));
        check("a claim meanwhile", "InProgress or Replay", Holds(allowed), seen)?;
        same("complete", &again(owner.complete("answer")).await?, &FinishOutcome::Done)?;
        same("the response", &&owner.replayed().await?.response[..], &&b"answer"[..])?;
        still_works(t).await?;
        if done.is_some() {
            return Ok(());
        }
    }
    Err(endless())
}

pub(crate) async fn a_dropped_renewal_can_be_repeated(t: &Subject) -> Verdict {
    for polls in 0..MOST_POLLS {
        let owner = t.holder(&t.key()?).await?;
        let renewal = Renewal::number(1).leaving("left");
        let done = cut_off(polls, owner.held(renewal.clone())).await.transpose()?;
        again(owner.held(renewal)).await?;
        let record = held_record(t, &owner.key).await?;
        same("the checkpoint", &checkpoint_of(&record), &Some(&b"left"[..]))?;
        still_works(t).await?;
        if done.is_some() {
            return Ok(());
        }
    }
    Err(endless())
}

pub(crate) async fn a_dropped_release_can_be_repeated(t: &Subject) -> Verdict {
    for polls in 0..MOST_POLLS {
        let owner = t.holder(&t.key()?).await?;
        let done = cut_off(polls, owner.release(Release::Failed)).await.transpose()?;
        let released = again(owner.release(Release::Failed)).await?;
        same("release", &released, &ReleaseOutcome::Released)?;
        let next = again(t.caller(&owner.key).acquired()).await?;
        same("the attempt", &next.attempt.get(), &2)?;
        still_works(t).await?;
        if done.is_some() {
            return Ok(());
        }
    }
    Err(endless())
}

/// Kind of fault: a renewal or a claim goes on after its caller was cancelled (H-08, H-55). Each
/// claim is dropped at another await point; after the lease every key must be claimable.
pub(crate) async fn a_claim_nobody_listens_to_ends_with_its_lease(t: &Subject) -> Verdict {
    let mut dropped = Vec::new();
    for polls in 0..MOST_POLLS {
        let caller = t.caller(&t.key()?).lease(t.window());
        let done = cut_off(polls, caller.claim()).await.transpose()?;
        dropped.push(caller);
        if done.is_some() {
            break;
        }
    }
    t.wait_out(t.window()).await;
    for caller in dropped {
        let stranger = &t.caller(&caller.key);
        t.soon("a key whose claim was dropped", || async move {
            let outcome = stranger.claim().await?;
            Ok(matches!(outcome, ClaimOutcome::Acquired(_)).then_some(()))
        })
        .await?;
    }
    Ok(())
}

pub(crate) async fn a_late_claim_holds_for_its_own_lease_only(t: &Subject) -> Verdict {
    let key = t.key()?;
    let ghost = t.caller(&key).lease(t.window());
    ghost.acquired().await?;
    let running = t.caller(&key).claim().await?;
    if let ClaimOutcome::InProgress(running) = running {
        let longest = t.window() + t.late();
        between("its lease", running.lease_remaining, Duration::ZERO, longest)?;
    }
    t.until_abandoned(&key, t.window()).await?;
    t.holder(&key).await.map(drop)
}
