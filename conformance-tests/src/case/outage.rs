//! A server that cannot be reached, or does not answer: C50, C51.

use std::future::Future;

use idempotency_core::{
    ClaimOutcome, Effect, ErrorKind, FinishOutcome, Release, ReleaseOutcome, StoreError,
};

use super::prelude::*;
use crate::proxy::{Fault, FaultProxy};

/// A store behind a proxy; it has answered once, so that its connections stand.
async fn behind_a_proxy(
    t: &Subject,
) -> Verdict<(FaultProxy, Arc<dyn idempotency_core::IdempotencyStore>)> {
    let server = t.server()?;
    let proxy = FaultProxy::start(server).await;
    let proxy = proxy.map_err(|e| Halt::fail("a proxy", "to start", e.to_string()))?;
    let store = t.through(proxy.address()).await?;
    let warm = t.caller(&t.key()?).via(Arc::clone(&store));
    warm.acquired().await?;
    Ok((proxy, store))
}

/// No time-out that a harness should choose is longer.
const LONGEST: Duration = Duration::from_secs(8);

async fn ends_in_time<T>(what: &str, work: impl Future<Output = T>) -> Verdict<T> {
    let endless = |_| Halt::fail(what, format!("an end within {LONGEST:?}"), "none");
    tokio::time::timeout(LONGEST, work).await.map_err(endless)
}

/// An outage is an error, of a kind that says so.
fn is_outage<T: std::fmt::Debug>(what: &str, answer: Result<T, StoreError>) -> Verdict<Effect> {
    match answer {
        Err(error) => {
            let kinds = [ErrorKind::Unavailable, ErrorKind::Timeout];
            let known = Holds(kinds.contains(&error.kind()));
            check(what, "Unavailable or Timeout", known, &error)?;
            check(what, "a transient error", Holds(error.is_transient()), &error)?;
            Ok(error.effect())
        }
        Ok(answer) => Err(Halt::fail(what, "an error", format!("{answer:?}"))),
    }
}

/// All the operations fail, in time; and work again as soon as the server does.
async fn fails_and_recovers(t: &Subject, fault: Fault) -> Verdict {
    let (proxy, store) = behind_a_proxy(t).await?;
    let owner = t.holder(&t.key()?).await?.via(Arc::clone(&store));
    proxy.set(fault);
    let newcomer = t.caller(&t.key()?).via(store);
    let (claim, lookup, renew, complete, release) = ends_in_time("the operations", async {
        tokio::join!(
            newcomer.try_claim(),
            newcomer.store.lookup(&newcomer.key),
            owner.try_renew(Renewal::number(1)),
            owner.try_complete("answer"),
            newcomer.try_release(Release::Failed),
        )
    })
    .await?;
    is_outage("claim", claim?)?;
    is_outage("lookup", lookup)?;
    is_outage("renew", renew?)?;
    is_outage("complete", complete?)?;
    is_outage("release", release)?;
    proxy.set(Fault::None);
    recovers(t, &owner).await
}

/// The owner repeats its completion until the store answers again, without being restarted.
async fn recovers(t: &Subject, owner: &Caller) -> Verdict {
    let outcome = t.soon("the store after the outage", || async move {
        Ok(owner.try_complete("answer").await?.ok())
    });
    same("complete", &outcome.await?, &FinishOutcome::Done)?;
    same("the response", &&owner.replayed().await?.response[..], &&b"answer"[..])
}

/// Kind of fault: store down (H-59).
pub(crate) async fn a_refused_connection_is_an_error(t: &Subject) -> Verdict {
    fails_and_recovers(t, Fault::Refuse).await
}

pub(crate) async fn a_server_that_never_answers_is_an_error_in_time(t: &Subject) -> Verdict {
    fails_and_recovers(t, Fault::Hang).await
}

pub(crate) async fn a_new_connection_to_a_hung_server_ends_in_time(t: &Subject) -> Verdict {
    let proxy = FaultProxy::start(t.server()?).await;
    let proxy = proxy.map_err(|e| Halt::fail("a proxy", "to start", e.to_string()))?;
    proxy.set(Fault::Hang);
    let caller = t.caller(&t.key()?);
    let claim = ends_in_time("a first claim", async {
        // some stores connect at once, others with their first operation
        match t.through(proxy.address()).await {
            Ok(store) => caller.via(store).try_claim().await.map(Some),
            Err(Halt::Fail(_)) => Ok(None),
            Err(skip) => Err(skip),
        }
    });
    match claim.await?? {
        Some(answer) => is_outage("claim", answer).map(drop),
        None => Ok(()),
    }
}

/// Kind of fault: an own lost success looks like a conflict (H-50). The server did it, the reply
/// was lost, so nobody may say that nothing happened; the same operation again succeeds.
pub(crate) async fn a_reply_that_is_lost_leaves_the_effect_unknown(t: &Subject) -> Verdict {
    let (proxy, store) = behind_a_proxy(t).await?;
    let caller = t.caller(&t.key()?).via(store);
    proxy.set(Fault::LoseReplies);
    let claim = ends_in_time("claim", caller.try_claim()).await??;
    lost("claim", claim.map(|outcome| matches!(outcome, ClaimOutcome::Acquired(_))))?;
    let complete = ends_in_time("complete", caller.try_complete("answer")).await??;
    lost("complete", complete.map(|outcome| outcome == FinishOutcome::Done))?;
    let release = ends_in_time("release", caller.try_release(Release::Failed)).await?;
    lost("release", release.map(|outcome| outcome == ReleaseOutcome::Lost))?;
    proxy.set(Fault::None);
    let again = &caller;
    let outcome =
        t.soon("the store after the outage", || async move { Ok(again.try_claim().await?.ok()) });
    let outcome = outcome.await?;
    let known = matches!(outcome, ClaimOutcome::Acquired(_) | ClaimOutcome::Replay(_));
    check("the claim again", "Acquired or Replay", Holds(known), outcome)
}

/// Either the driver repeated the operation and it was recognised, or the effect is unknown.
fn lost(what: &str, answer: Result<bool, StoreError>) -> Verdict {
    match answer {
        Ok(recognised) => check(what, "its own success recognised", Holds(recognised), recognised),
        Err(error) => same(what, &is_outage(what, Err::<(), _>(error))?, &Effect::Unknown),
    }
}

pub(crate) async fn a_request_that_is_lost_can_be_repeated(t: &Subject) -> Verdict {
    let (proxy, store) = behind_a_proxy(t).await?;
    let caller = t.caller(&t.key()?).via(store);
    proxy.set(Fault::LoseRequests);
    let claim = ends_in_time("claim", caller.try_claim()).await??;
    is_outage("claim", claim)?;
    same("lookup", &t.record(&caller.key).await?, &None)?;
    proxy.set(Fault::None);
    let again = &caller;
    let outcome =
        t.soon("the store after the outage", || async move { Ok(again.try_claim().await?.ok()) });
    let outcome = outcome.await?;
    let acquired = matches!(outcome, ClaimOutcome::Acquired(_));
    check("the claim again", "Acquired", Holds(acquired), outcome)
}
