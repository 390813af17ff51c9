//! The heartbeat of an executor, and how it ends: C62.

use idempotency_core::{Answer, Operation, Recorded, Release};

use super::{
    hands::{acquired, deadline_of, stored},
    prelude::*,
    stage::{LEASE, at_once, play},
};
use crate::script::{Reply, Script};

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
