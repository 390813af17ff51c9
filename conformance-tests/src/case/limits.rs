//! The limits a profile names: C41.

use bytes::Bytes;
use idempotency_core::{Effect, ErrorKind, FinishOutcome, IdempotencyKey};

use super::prelude::*;

async fn leaves(t: &Subject, owner: &Caller, sequence: u64, size: usize) -> Verdict {
    let checkpoint = filled(t, size);
    let renewal = Renewal { checkpoint: Some(checkpoint.clone()), ..Renewal::number(sequence) };
    owner.held(renewal).await?;
    let record = held_record(t, &owner.key).await?;
    let kept = Holds(checkpoint_of(&record) == Some(&checkpoint[..]));
    let length = checkpoint_of(&record).map(<[u8]>::len);
    check("the checkpoint", &format!("the {size} bytes that were left"), kept, length)
}

fn filled(t: &Subject, size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    t.draw(|random| random.fill(&mut bytes));
    bytes.into()
}

pub(crate) async fn the_largest_checkpoint_comes_back(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    leaves(t, &owner, 1, t.profile().max_checkpoint_bytes).await?;
    leaves(t, &owner, 2, 256.min(t.profile().max_checkpoint_bytes)).await
}

pub(crate) async fn too_large_a_checkpoint_is_refused_without_effect(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    leaves(t, &owner, 1, 10.min(t.profile().max_checkpoint_bytes)).await?;
    let before = t.record(&owner.key).await?;
    let too_large = filled(t, t.profile().max_checkpoint_bytes.saturating_add(1));
    let renewal = Renewal { checkpoint: Some(too_large), ..Renewal::number(2) };
    match owner.try_renew(renewal).await? {
        Err(error) => {
            let got = (error.kind(), error.effect());
            same("the error", &got, &(ErrorKind::TooLarge, Effect::None))?;
        }
        Ok(answer) => return Err(Halt::fail("too large", "TooLarge", format!("{answer:?}"))),
    }
    same("the record", &t.record(&owner.key).await?, &before)
}

/// The longest scope and key, the largest checkpoint, then the largest response.
pub(crate) async fn all_the_limits_at_once_fit(t: &Subject) -> Verdict {
    let longest = "é".repeat(127) + "%";
    let key = IdempotencyKey::new(longest.as_str(), &longest)
        .map_err(|error| Halt::fail("the longest key", "accepted", error.to_string()))?;
    let owner = t.holder(&key).await?;
    leaves(t, &owner, 1, t.profile().max_checkpoint_bytes).await?;
    let response = filled(t, t.profile().max_response_bytes);
    same("complete", &owner.complete(response.clone()).await?, &FinishOutcome::Done)?;
    let kept = Holds(owner.replayed().await?.response == response);
    check("the response", "what was stored", kept, response.len())
}

pub(crate) async fn the_store_promises_what_its_harness_expects(t: &Subject) -> Verdict {
    same("the profile", t.profile(), &t.expected_profile())
}
