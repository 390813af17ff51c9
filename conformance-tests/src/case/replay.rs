//! The stored answer: C05, C40.

use bytes::Bytes;
use idempotency_core::{Effect, ErrorKind, FinishOutcome};

use super::prelude::*;

async fn completed(t: &Subject, response: impl Into<Bytes>) -> Verdict<Caller> {
    let owner = t.holder(&t.key()?).await?;
    same("complete", &owner.complete(response).await?, &FinishOutcome::Done)?;
    Ok(owner)
}

async fn comes_back(t: &Subject, response: Bytes) -> Verdict {
    let owner = completed(t, response.clone()).await?;
    let replay = t.caller(&owner.key).replayed().await?;
    let identical = Holds(replay.response == response);
    let rule = format!("the {} bytes that were stored", response.len());
    check("the response", &rule, identical, Outline(&replay.response))
}

/// The length and the first bytes.
struct Outline<'a>(&'a Bytes);

impl std::fmt::Debug for Outline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = self.0.get(..16).unwrap_or(self.0);
        write!(f, "{} bytes beginning with {start:02x?}", self.0.len())
    }
}

pub(crate) async fn completed_key_is_replayed_to_everybody(t: &Subject) -> Verdict {
    let owner = completed(t, "answer").await?;
    let stranger = t.caller(&owner.key);
    for caller in [stranger.clone(), stranger.refusing(), owner.clone(), owner.refusing()] {
        let replay = caller.replayed().await?;
        same("the response", &&replay.response[..], &&b"answer"[..])?;
        same("the attempt", &replay.attempt.get(), &1)?;
    }
    Ok(())
}

pub(crate) async fn replay_tells_its_age_and_what_is_left(t: &Subject) -> Verdict {
    let claimed = t.now();
    let owner = t.holder(&t.key()?).await?;
    t.elapse(Duration::from_millis(30)).await;
    let before = t.now();
    same("complete", &owner.complete("answer").await?, &FinishOutcome::Done)?;
    let after = t.now();
    t.elapse(Duration::from_millis(30)).await;
    let replay = t.caller(&owner.key).replayed().await?;
    let late = t.late();
    let (oldest, youngest) = (t.since(before) + late, t.since(after).saturating_sub(late));
    let youngest = youngest.min(Duration::from_millis(30).saturating_sub(late));
    between("the age", replay.age, youngest, oldest)?;
    between(
        "the rest",
        replay.retention_remaining,
        LONG.saturating_sub(oldest),
        LONG.saturating_sub(youngest),
    )?;
    let first = replay.first_attempt_ago;
    between("first attempt ago", first, youngest * 2, t.since(claimed) + late)
}

pub(crate) async fn replay_changes_nothing(t: &Subject) -> Verdict {
    let owner = completed(t, "answer").await?;
    let before = t.record(&owner.key).await?;
    t.elapse(Duration::from_millis(5)).await;
    let stranger = t.caller(&owner.key).lease(LONG * 2).retention(LONG * 2);
    for caller in [stranger.clone(), stranger.refusing(), owner.clone()] {
        caller.replayed().await?;
        same("the record", &t.record(&owner.key).await?, &before)?;
    }
    Ok(())
}

pub(crate) async fn response_of_a_takeover_is_replayed_with_its_attempt(t: &Subject) -> Verdict {
    let key = t.key()?;
    t.caller(&key).lease(t.window()).acquire().await?;
    t.until_abandoned(&key, t.window()).await?;
    let second = t.holder(&key).await?;
    same("complete", &second.complete("second").await?, &FinishOutcome::Done)?;
    let replay = t.caller(&key).replayed().await?;
    same("the response", &&replay.response[..], &&b"second"[..])?;
    same("the attempt", &replay.attempt.get(), &2)
}

/// Kind of fault: an empty result looks like no result (H-21).
pub(crate) async fn empty_response_is_a_response(t: &Subject) -> Verdict {
    comes_back(t, Bytes::new()).await
}

/// Kind of fault: lossy text decoding (H-38).
pub(crate) async fn all_byte_values_come_back(t: &Subject) -> Verdict {
    let up: Vec<u8> = (0..=255).collect();
    let down = up.iter().rev().copied().collect::<Vec<_>>();
    comes_back(t, [up, down].concat().into()).await
}

pub(crate) async fn responses_around_round_sizes_come_back(t: &Subject) -> Verdict {
    let limit = t.profile().max_response_bytes;
    for round in [1, 128, 256, 4_096, 65_536] {
        for size in [round - 1, round, round + 1] {
            if size <= limit {
                comes_back(t, pattern(t, size)).await?;
            }
        }
    }
    Ok(())
}

/// Bytes that do not compress and have no period.
fn pattern(t: &Subject, size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    t.draw(|random| random.fill(&mut bytes));
    bytes.into()
}

pub(crate) async fn largest_response_comes_back(t: &Subject) -> Verdict {
    comes_back(t, pattern(t, t.profile().max_response_bytes)).await
}

/// Kind of fault: too big to store, so not protected (H-39).
pub(crate) async fn too_large_a_response_is_refused_without_effect(t: &Subject) -> Verdict {
    let owner = t.holder(&t.key()?).await?;
    let before = t.record(&owner.key).await?;
    let response = pattern(t, t.profile().max_response_bytes.saturating_add(1));
    match owner.try_complete(response).await? {
        Err(error) => {
            let got = (error.kind(), error.effect());
            same("the error", &got, &(ErrorKind::TooLarge, Effect::None))?;
        }
        Ok(answer) => return Err(Halt::fail("too large", "TooLarge", format!("{answer:?}"))),
    }
    same("the record", &t.record(&owner.key).await?, &before)?;
    same("a smaller one", &owner.complete("small").await?, &FinishOutcome::Done)
}
