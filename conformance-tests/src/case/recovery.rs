//! The verdict on an abandoned attempt: C63.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use idempotency_core::{
    Answer, AttemptNumber, Begun, Idempotency, Operation, Question, Recovery, Release,
    Verdict as Judgement,
};

use super::{
    prelude::*,
    stage::{LEASE, Stage, at_once, built, play},
};

/// Answers with what it was given, in order, and notes which attempts it was asked about. With a
/// stage, another attempt comes and goes while it thinks for the first time.
#[derive(Clone)]
struct Hook {
    judgements: Arc<Mutex<Vec<Judgement>>>,
    asked: Arc<Mutex<Vec<u32>>>,
    rival: Option<Stage>,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl Hook {
    fn new(mut judgements: Vec<Judgement>) -> Self {
        judgements.reverse();
        let judgements = Arc::new(Mutex::new(judgements));
        Self { judgements, asked: Arc::default(), rival: None }
    }

    fn asked(&self) -> Vec<u32> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Recovery for Hook {
    async fn recover(&self, question: Question<'_>) -> Judgement {
        let first = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push(question.abandoned.attempt.get());
            asked.len() == 1
        };
        if let (true, Some(stage)) = (first, &self.rival) {
            // what becomes of it shows in the record
            let _abandoned = abandon(stage).await;
        }
        let mut judgements = self.judgements.lock().unwrap_or_else(PoisonError::into_inner);
        judgements.pop().unwrap_or(Judgement::Unknown)
    }
}

/// An attempt takes the key, or takes it over, and gives it back without knowing how it ended.
async fn abandon(stage: &Stage) -> Verdict<AttemptNumber> {
    let executor: Idempotency = stage.executor()?;
    match executor.begin(&stage.key, stage.fingerprint).await {
        Ok(Begun::Acquired(guard)) => {
            let number = guard.attempt().number();
            let released = guard.release(Release::Unknown).await;
            check("release", "an answer", Holds(released.is_ok()), released)?;
            Ok(number)
        }
        other => Err(Halt::fail("begin", "Acquired", format!("{other:?}"))),
    }
}

async fn recovering(stage: &Stage, hook: &Hook) -> Verdict<Begun> {
    let executor = built(stage.builder()?.recovery(hook.clone()))?;
    let begun = executor.begin(&stage.key, stage.fingerprint).await;
    begun.map_err(|error| Halt::fail("begin", "an answer", error.to_string()))
}

pub(crate) async fn a_verdict_on_the_last_attempt_counts(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        same("the abandoned attempt", &abandon(&stage).await?.get(), &1)?;
        let hook = Hook::new(vec![Judgement::NotHappened]);
        match recovering(&stage, &hook).await? {
            Begun::Acquired(guard) => same("the attempt", &guard.attempt().number().get(), &2)?,
            other => return Err(Halt::fail("begin", "Acquired", format!("{other:?}"))),
        }
        same("asked about", &hook.asked(), &vec![1])
    })
    .await
}

pub(crate) async fn what_happened_is_replayed_and_not_done_again(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        abandon(&stage).await?;
        let answer = Answer::bytes("it happened");
        let hook = Hook::new(vec![Judgement::Happened(answer.clone())]);
        for _ in 0..2 {
            match recovering(&stage, &hook).await? {
                Begun::Replayed(replayed) => same("the answer", &replayed.answer, &answer)?,
                other => return Err(Halt::fail("begin", "Replayed", format!("{other:?}"))),
            }
        }
        same("asked about", &hook.asked(), &vec![1])
    })
    .await
}

/// Kind of fault: a recovery verdict is used for a later attempt.
pub(crate) async fn a_verdict_on_an_earlier_attempt_does_not_count(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        abandon(&stage).await?;
        let answer = Answer::bytes("the second happened");
        let judgements = vec![Judgement::NotHappened, Judgement::Happened(answer.clone())];
        let mut hook = Hook::new(judgements);
        hook.rival = Some(stage.clone());
        match recovering(&stage, &hook).await? {
            Begun::Replayed(replayed) => same("the answer", &replayed.answer, &answer)?,
            other => return Err(Halt::fail("begin", "Replayed", format!("{other:?}"))),
        }
        same("asked about", &hook.asked(), &vec![1, 2])
    })
    .await
}

/// While the hook is asked again, the claim is held: nobody else can come in between once more.
pub(crate) async fn the_second_question_is_asked_while_the_claim_is_held(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        abandon(&stage).await?;
        let mut hook = Hook::new(vec![Judgement::NotHappened, Judgement::NotHappened]);
        hook.rival = Some(stage.clone());
        match recovering(&stage, &hook).await? {
            Begun::Acquired(guard) => same("the attempt", &guard.attempt().number().get(), &3)?,
            other => return Err(Halt::fail("begin", "Acquired", format!("{other:?}"))),
        }
        same("asked about", &hook.asked(), &vec![1, 2])
    })
    .await
}

pub(crate) async fn nothing_runs_while_nobody_can_tell(t: &Subject) -> Verdict {
    play(t, at_once, |stage| async move {
        abandon(&stage).await?;
        let claims = stage.script.sent(Operation::Claim).len();
        let hook = Hook::new(vec![]);
        let begun = recovering(&stage, &hook).await?;
        check("begin", "Unknown", Holds(matches!(begun, Begun::Unknown(_))), &begun)?;
        stage.pass(LEASE).await;
        same("claims", &(stage.script.sent(Operation::Claim).len() - claims), &1)
    })
    .await
}
