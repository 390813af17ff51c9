//! Sweeping: C55.

use std::num::NonZeroU32;

use futures_util::future::try_join_all;
use idempotency_core::{
    ClaimOutcome, FinishOutcome, Release, ReleaseOutcome, Sharing, Sweep, SweepReport,
};

use super::prelude::*;

async fn sweep_once(sweep: &Arc<dyn Sweep>, batch: u32) -> Verdict<SweepReport> {
    let most = NonZeroU32::new(batch).unwrap_or(NonZeroU32::MIN);
    let report = sweep.sweep(most).await;
    let report = report.map_err(|error| Halt::error("sweep", &error))?;
    let within = Holds(report.removed <= u64::from(batch) && report.abandoned <= report.removed);
    check("one sweep", &format!("at most {batch} removed"), within, report)?;
    Ok(report)
}

/// Sweeps until nothing is left; gives the sums.
async fn sweep_all(sweep: &Arc<dyn Sweep>, batch: u32) -> Verdict<SweepReport> {
    let mut total = SweepReport::default();
    for _ in 0..1_000 {
        let report = sweep_once(sweep, batch).await?;
        total.removed += report.removed;
        total.abandoned += report.abandoned;
        if !report.more {
            return Ok(total);
        }
    }
    Err(Halt::fail("sweeping", "an end", "more after 1000 batches"))
}

/// Records in every state that must survive, each with what it must still answer.
async fn survivors(t: &Subject) -> Verdict<Vec<Caller>> {
    let in_progress = t.holder(&t.key()?).await?;
    let abandoned = t.caller(&t.key()?).lease(Duration::from_millis(1)).acquire().await?;
    let failed = t.holder(&t.key()?).await?;
    same("release", &failed.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    let unknown = t.holder(&t.key()?).await?;
    same("release", &unknown.release(Release::Unknown).await?, &ReleaseOutcome::Released)?;
    let completed = t.holder(&t.key()?).await?;
    same("complete", &completed.complete("answer").await?, &FinishOutcome::Done)?;
    Ok(vec![in_progress, abandoned, failed, unknown, completed])
}

/// `count` records that are past their retention, every second one of an unsettled attempt.
async fn expired(t: &Subject, count: u32) -> Verdict {
    for number in 0..count {
        let caller = t.caller(&t.key()?).lease(Duration::from_millis(1)).retention(t.window());
        let owner = caller.acquire().await?;
        if number % 2 == 1 {
            same("complete", &owner.complete("old").await?, &FinishOutcome::Done)?;
        }
    }
    t.wait_out(t.window() + Duration::from_millis(1)).await;
    Ok(())
}

/// Kind of fault: a sweep takes live records (H-46, H-58).
pub(crate) async fn a_sweep_leaves_what_lives(t: &Subject) -> Verdict {
    let sweep = t.sweep()?;
    let survivors = survivors(t).await?;
    expired(t, 4).await?;
    let mut before = Vec::new();
    for caller in &survivors {
        before.push(t.record(&caller.key).await?);
    }
    sweep_all(&sweep, 100).await.map(drop)?;
    for (caller, before) in survivors.iter().zip(&before) {
        same("the record", &t.record(&caller.key).await?, before)?;
        check("the record", "one that lives", Holds(before.is_some()), before)?;
    }
    Ok(())
}

pub(crate) async fn a_sweep_removes_no_more_than_its_batch(t: &Subject) -> Verdict {
    let sweep = t.sweep()?;
    expired(t, 7).await?;
    sweep_once(&sweep, 2).await.map(drop)?;
    sweep_all(&sweep, 3).await.map(drop)
}

/// Only where nobody else's records are in the store, and it removes nothing by itself.
pub(crate) async fn a_sweep_counts_what_it_removes(t: &Subject) -> Verdict {
    let sweep = t.sweep()?;
    let profile = t.profile();
    if profile.sharing == Sharing::Server || profile.expires_by_itself {
        let reason = "others sweep the same server, or it removes expired records by itself";
        return Err(Halt::Skip(reason.to_owned()));
    }
    survivors(t).await?;
    expired(t, 7).await?;
    let total = sweep_all(&sweep, 3).await?;
    same("removed and abandoned", &(total.removed, total.abandoned), &(7, 4))?;
    let nothing = sweep_once(&sweep, 3).await?;
    same("the next sweep", &nothing, &SweepReport::default())
}

/// Kind of fault: two cleaners block each other, or remove what was claimed anew (H-58).
pub(crate) async fn sweepers_and_claims_do_not_disturb_each_other(t: &Subject) -> Verdict {
    let sweep = t.sweep()?;
    for _ in 0..t.count(5) {
        let keys = (0..8).map(|_| t.key()).collect::<Verdict<Vec<_>>>()?;
        for key in &keys {
            let old = t.caller(key).lease(t.window() / 4).retention(t.window() / 4);
            old.acquire().await?;
        }
        t.wait_out(t.window() / 2).await;
        let claims: Vec<_> = keys.iter().map(|key| t.caller(key)).collect();
        let claimed = try_join_all(claims.iter().map(Caller::claim));
        let swept = try_join_all((0..3).map(|_| sweep_all(&sweep, 2)));
        let (claimed, _) = futures_util::future::try_join(claimed, swept).await?;
        for (caller, outcome) in claims.iter().zip(claimed) {
            let acquired = matches!(&outcome, ClaimOutcome::Acquired(a) if a.attempt.get() == 1);
            check("a claim beside sweepers", "Acquired", Holds(acquired), outcome)?;
            same("complete", &caller.complete("answer").await?, &FinishOutcome::Done)?;
        }
    }
    Ok(())
}
