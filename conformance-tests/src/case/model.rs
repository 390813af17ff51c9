//! Random programs, on the store and on the machine: C60.

use idempotency_core::{Clock, SystemClock};
use tokio::sync::mpsc;

use super::prelude::*;
use crate::model::{Program, agrees, kept, search};

/// Where waiting takes real time, a run ends after this long whatever is left of it.
const BUDGET: Duration = Duration::from_secs(5);

pub(crate) async fn programs_that_found_something_once_find_nothing(t: &Subject) -> Verdict {
    let kept = kept().map_err(|line| Halt::fail("a kept program", "readable", line))?;
    for program in kept {
        agrees(t, &program).await.map_err(|halt| with(&program, halt))?;
    }
    Ok(())
}

pub(crate) async fn random_programs_are_answered_as_by_the_machine(t: &Subject) -> Verdict {
    let clock = SystemClock::new();
    let (ask, mut asked) = mpsc::channel(1);
    let (answer, tried) = mpsc::channel(1);
    let (seed, count) = (t.number(), u32::try_from(t.count(250)).unwrap_or(u32::MAX));
    let search = tokio::task::spawn_blocking(move || search(seed, count, &ask, tried));
    let mut found = None;
    while let Some(program) = asked.recv().await {
        let over = found.is_none() && clock.monotonic() > BUDGET;
        let tried = match if over { Ok(()) } else { agrees(t, &program).await } {
            Ok(()) => Ok(()),
            Err(halt) => {
                let failure = format!("{halt:?}");
                found = Some((program, halt));
                Err(failure)
            }
        };
        // an error means that the search has ended
        let _ended = answer.send(tried).await;
    }
    // the last one that failed is the smallest
    let smallest = search.await.ok().flatten();
    match found {
        None => Ok(()),
        Some((program, halt)) => Err(with(&smallest.unwrap_or(program), halt)),
    }
}

/// The failure with the program, as a line to keep.
fn with(program: &Program, halt: Halt) -> Halt {
    match halt {
        Halt::Fail(failure) => {
            let line = serde_json::to_string(program).unwrap_or_default();
            Halt::Fail(failure.because(&format!("the program {line}")))
        }
        skip @ Halt::Skip(_) => skip,
    }
}
