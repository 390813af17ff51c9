//! The same key for another request: C06.

use idempotency_core::{Fingerprint, FinishOutcome, IdempotencyKey, Release, ReleaseOutcome};

use super::prelude::*;

/// A claim for something else is refused, whoever asks and however, and changes nothing.
async fn refuses_another_request(t: &Subject, owner: &Caller) -> Verdict {
    let before = t.record(&owner.key).await?;
    let stranger = t.caller(&owner.key).asking("something else");
    let same_token = owner.clone().asking("something else");
    for caller in [stranger, same_token] {
        caller.mismatched().await?;
        caller.refusing().mismatched().await?;
    }
    same("the record", &t.record(&owner.key).await?, &before)
}

/// Kind of fault: mismatch not checked while the first is running (H-23).
pub(crate) async fn mismatch_while_in_progress(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    refuses_another_request(t, &owner).await
}

pub(crate) async fn mismatch_when_abandoned(t: &Subject) -> Verdict {
    let key = t.key()?;
    let owner = t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    refuses_another_request(t, &owner).await
}

async fn mismatch_when_released(t: &Subject, release: Release) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("release", &owner.release(release).await?, &ReleaseOutcome::Released)?;
    refuses_another_request(t, &owner).await
}

pub(crate) async fn mismatch_when_released_as_failed(t: &Subject) -> Verdict {
    mismatch_when_released(t, Release::Failed).await
}

pub(crate) async fn mismatch_when_released_as_unknown(t: &Subject) -> Verdict {
    mismatch_when_released(t, Release::Unknown).await
}

pub(crate) async fn mismatch_when_completed(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    refuses_another_request(t, &owner).await
}

pub(crate) async fn mismatch_after_a_takeover(t: &Subject) -> Verdict {
    let key = t.key()?;
    let first = t.holder(&key).await?;
    same("release", &first.release(Release::Failed).await?, &ReleaseOutcome::Released)?;
    let second = t.holder(&key).await?;
    refuses_another_request(t, &second).await
}

async fn mismatch_between(
    t: &Subject,
    key: &IdempotencyKey,
    stored: Fingerprint,
    asked: Fingerprint,
) -> Verdict {
    t.caller(key).with_fingerprint(stored).acquire().await?;
    let version = t.caller(key).with_fingerprint(asked).mismatched().await?;
    same("the stored version", &version, &stored.version())
}

/// Kind of fault: a new release changes what is hashed (H-27).
pub(crate) async fn mismatch_tells_the_stored_version(t: &Subject) -> Verdict {
    for version in [1, 2, 77, 255] {
        let mut bytes = Fingerprint::of_bytes("the request").to_stored_bytes();
        bytes[0] = version;
        let stored = Fingerprint::from_stored_bytes(bytes);
        bytes[0] = 3;
        mismatch_between(t, &t.key()?, stored, Fingerprint::from_stored_bytes(bytes)).await?;
    }
    Ok(())
}

pub(crate) async fn every_byte_of_a_fingerprint_counts(t: &Subject) -> Verdict {
    let bytes = Fingerprint::of_bytes("the request").to_stored_bytes();
    for changed in 0..bytes.len() {
        let mut other = bytes;
        for byte in other.iter_mut().skip(changed).take(1) {
            *byte ^= 1;
        }
        let (stored, asked) = (bytes, other);
        let (stored, asked) = [stored, asked].map(Fingerprint::from_stored_bytes).into();
        mismatch_between(t, &t.key()?, stored, asked).await?;
    }
    Ok(())
}
