//! What cannot be read: C00. And what is somebody else's: C35.

use std::num::NonZeroU32;

use idempotency_core::{Effect, ErrorKind, FinishOutcome, Release, StoreError};

use super::prelude::*;
use crate::harness::RawRecord;

#[track_caller]
fn refused<T: std::fmt::Debug>(what: &str, answer: Result<T, StoreError>) -> Verdict {
    match answer {
        Err(error) => {
            let expected = (ErrorKind::Corrupt, Effect::None);
            same(what, &(error.kind(), error.effect()), &expected)
        }
        Ok(answer) => Err(Halt::fail(what, "the error Corrupt", format!("{answer:?}"))),
    }
}

/// Every operation of everybody is refused, twice: so the first round overwrote nothing.
async fn everything_is_refused(t: &Subject, owner: &Caller) -> Verdict {
    let another_request = t.caller(&owner.key).asking("something else");
    for _ in 0..2 {
        refused("lookup", owner.store.lookup(&owner.key).await)?;
        for caller in [owner, &t.caller(&owner.key), &another_request] {
            refused("claim", caller.try_claim().await?)?;
            refused("claim, refusing", caller.clone().refusing().try_claim().await?)?;
            refused("renew", caller.try_renew(Renewal::number(9).leaving("wrong")).await?)?;
            refused("complete", caller.try_complete("wrong").await?)?;
            for release in [Release::NotStarted, Release::Failed, Release::Unknown] {
                refused("release", caller.try_release(release).await)?;
            }
        }
    }
    Ok(())
}

async fn damaged(t: &Subject, raw: RawRecord<'_>) -> Verdict {
    let in_progress = t.holder(&t.key()?).await?;
    let completed = t.holder(&t.key()?).await?;
    same("complete", &completed.complete("answer").await?, &FinishOutcome::Done)?;
    for owner in [in_progress, completed] {
        t.write_raw(&owner.key, raw).await?;
        everything_is_refused(t, &owner).await?;
    }
    t.holder(&t.key()?).await.map(drop)
}

/// Kind of fault: foreign or half-known content under the key (H-22).
pub(crate) async fn foreign_data_is_refused(t: &Subject) -> Verdict {
    damaged(t, RawRecord::Foreign).await
}

pub(crate) async fn foreign_data_at_an_unused_key_is_refused(t: &Subject) -> Verdict {
    let newcomer = t.caller(&t.key()?);
    t.write_raw(&newcomer.key, RawRecord::Foreign).await?;
    everything_is_refused(t, &newcomer).await
}

pub(crate) async fn a_truncated_record_is_refused(t: &Subject) -> Verdict {
    damaged(t, RawRecord::Truncated).await
}

/// Kind of fault: a rollback reads what the new release has written (H-27).
pub(crate) async fn a_record_of_a_newer_format_is_refused(t: &Subject) -> Verdict {
    damaged(t, RawRecord::NewerFormat).await
}

async fn damaged_and_expired(t: &Subject, raw: RawRecord<'_>) -> Verdict<Caller> {
    let caller = t.caller(&t.key()?).lease(t.window()).retention(t.window());
    let owner = caller.acquire().await?;
    t.write_raw(&owner.key, raw).await?;
    t.wait_out(t.window() * 2).await;
    Ok(owner)
}

pub(crate) async fn what_cannot_be_read_never_expires(t: &Subject) -> Verdict {
    for raw in [RawRecord::NewerFormat, RawRecord::Truncated] {
        let owner = damaged_and_expired(t, raw).await?;
        everything_is_refused(t, &owner).await?;
    }
    Ok(())
}

pub(crate) async fn what_cannot_be_read_is_not_swept(t: &Subject) -> Verdict {
    let sweep = t.sweep()?;
    let mut damaged = Vec::new();
    for raw in [RawRecord::NewerFormat, RawRecord::Truncated] {
        damaged.push(damaged_and_expired(t, raw).await?);
    }
    let batch = NonZeroU32::new(100).unwrap_or(NonZeroU32::MIN);
    for _ in 0..3 {
        let report = sweep.sweep(batch).await;
        report.map(drop).map_err(|error| Halt::error("sweep", &error))?;
    }
    for owner in damaged {
        everything_is_refused(t, &owner).await?;
    }
    Ok(())
}

/// Kind of fault: replies shifted to the wrong request (H-48), digests that collide.
pub(crate) async fn the_record_of_another_key_is_refused(t: &Subject) -> Verdict {
    let (other, owner) = (t.holder(&t.key()?).await?, t.holder(&t.key()?).await?);
    let before = t.record(&other.key).await?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    t.write_raw(&owner.key, RawRecord::RecordOf(&other.key)).await?;
    everything_is_refused(t, &owner).await?;
    same("the other record", &t.record(&other.key).await?, &before)
}

pub(crate) async fn the_answer_of_another_key_is_never_replayed(t: &Subject) -> Verdict {
    let (other, newcomer) = (t.holder(&t.key()?).await?, t.caller(&t.key()?));
    same("complete", &other.complete("private").await?, &FinishOutcome::Done)?;
    t.write_raw(&newcomer.key, RawRecord::RecordOf(&other.key)).await?;
    everything_is_refused(t, &newcomer).await
}
