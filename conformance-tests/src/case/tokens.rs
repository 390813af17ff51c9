//! The tokens of an executor: C47.

use std::collections::HashSet;

use idempotency_core::{Operation, Release};

use super::{
    hands::{acquired, acquired_key, stored, tokens},
    prelude::*,
    stage::{LEASE, at_once, play},
};
use crate::{script::Reply, subject::named};

pub(crate) async fn every_attempt_has_a_token_of_its_own(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        let executor = stage.executor()?;
        for number in 0..50 {
            let key = named("conformance", &number.to_string())?;
            stored(acquired_key(&executor, &stage, &key).await?).await?;
        }
        let tokens = tokens(&stage.script.sent(Operation::Claim));
        same("the tokens of 50 attempts", &tokens.len(), &50)?;
        for byte in 0..16 {
            let values = tokens.iter().filter_map(|token| token.as_bytes().get(byte));
            let values: HashSet<_> = values.collect();
            let random = Holds(values.len() > 10);
            check("a byte of the tokens", "random", random, (byte, values.len()))?;
        }
        Ok(())
    })
    .await
}

/// Kind of fault: a token made of what the client sent, so that a client can act as the owner.
pub(crate) async fn tokens_do_not_follow_from_the_request(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        for _ in 0..10 {
            let guard = acquired(&stage.executor()?, &stage).await?;
            drop(guard);
            stage.script.forget();
        }
        let claims = stage.script.sent(Operation::Claim);
        same("the tokens for one request", &tokens(&claims).len(), &10)
    })
    .await
}

pub(crate) async fn a_repeated_try_has_the_same_token(t: &Subject) -> Verdict {
    const fn down_at_first(operation: Operation, number: usize) -> Reply {
        match operation {
            Operation::Claim if number < 2 => Reply::Down,
            _ => Reply::Now,
        }
    }
    play(t, down_at_first, |stage| async move {
        stored(acquired(&stage.executor()?, &stage).await?).await?;
        let claims = stage.script.sent(Operation::Claim);
        same("tries", &claims.len(), &3)?;
        same("the tokens", &tokens(&stage.script.log()).len(), &1)
    })
    .await
}

pub(crate) async fn a_token_that_was_given_back_is_never_used_again(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        let executor = stage.executor()?;
        let mut seen = HashSet::new();
        for release in [Release::Failed, Release::Unknown, Release::Failed] {
            let before = stage.script.log().len();
            let guard = acquired(&executor, &stage).await?;
            let released = guard.release(release).await;
            check("release", "an answer", Holds(released.is_ok()), released)?;
            stage.pass(LEASE * 2).await;
            let log = stage.script.log().split_off(before);
            let tokens = tokens(&log);
            same("the tokens of one attempt", &tokens.len(), &1)?;
            let last = log.last().map(|sent| sent.operation);
            same("the last that was sent", &last, &Some(Operation::Release))?;
            for token in tokens {
                check("a token", "never used before", Holds(seen.insert(token)), token)?;
            }
        }
        Ok(())
    })
    .await
}
