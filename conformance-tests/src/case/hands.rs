//! What several of the executor's cases do.

use std::{collections::HashSet, time::Duration};

use idempotency_core::{
    Answer, Begun, ClaimGuard, ClaimToken, Idempotency, IdempotencyKey, Operation, Recorded,
};

use super::stage::{LEASE, Stage};
use crate::{
    failure::{Halt, Verdict},
    script::{Script, Sent},
};

/// Begins, and holds the key of the stage.
pub(crate) async fn acquired(executor: &Idempotency, stage: &Stage) -> Verdict<ClaimGuard> {
    acquired_key(executor, stage, &stage.key).await
}

pub(crate) async fn acquired_key(
    executor: &Idempotency,
    stage: &Stage,
    key: &IdempotencyKey,
) -> Verdict<ClaimGuard> {
    match executor.begin(key, stage.fingerprint).await {
        Ok(Begun::Acquired(guard)) => Ok(guard),
        other => Err(Halt::fail("begin", "Acquired", format!("{other:?}"))),
    }
}

/// The tokens that were sent.
pub(crate) fn tokens(sent: &[Sent]) -> HashSet<ClaimToken> {
    sent.iter().map(|sent| sent.token).collect()
}

/// Completes, and fails unless the answer is stored.
pub(crate) async fn stored(guard: ClaimGuard) -> Verdict {
    match guard.complete(Answer::bytes("answer")).await {
        Recorded::Stored => Ok(()),
        other => Err(Halt::fail("complete", "Stored", format!("{other:?}"))),
    }
}

/// Until when the record was held, by what the executor can know: the last claim or renewal that was
/// answered, counted from before it was sent.
pub(crate) fn deadline_of(script: &Script) -> Duration {
    let log = script.log();
    let claim = log.iter().find(|sent| sent.operation == Operation::Claim);
    let renewed =
        log.iter().filter(|sent| sent.operation == Operation::Renew && sent.answered.is_some());
    let last = renewed.map(|sent| sent.at).chain(claim.map(|sent| sent.at)).max();
    last.unwrap_or_default() + LEASE
}
