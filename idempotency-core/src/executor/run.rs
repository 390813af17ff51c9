use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, resume_unwind},
};

use futures_util::FutureExt;
use serde::{Serialize, de::DeserializeOwned};
use tracing::Instrument;

use super::{
    Answer, AnswerBody, Attempt, Begun, ClaimGuard, Classify, Codec, Disposition, Error,
    Idempotency, Joined, NotKept, NotKeptReason, Otherwise, Outcome, Replayed,
};
use crate::{fingerprint::Fingerprint, key::IdempotencyKey, store::Release};

impl Idempotency {
    /// Runs `work` once for `key`, and gives its result to every repetition.
    ///
    /// The result is stored when it is a success or an error that [`Classify`] calls final. `work`
    /// is told which attempt it is: more than 1 means that an earlier one may have happened.
    ///
    /// ```
    /// # use idempotency_core::*;
    /// # async fn example(idempotency: &Idempotency) -> Result<(), Box<dyn std::error::Error>> {
    /// let key = IdempotencyKey::new("merchant_42", "order-7")?;
    /// let fingerprint = Fingerprint::of_json(&("charge", 500, "eur"))?;
    /// let outcome = idempotency
    ///     .run(&key, fingerprint, async |attempt| {
    ///         println!("charging, attempt {}", attempt.number());
    ///         Ok::<_, Never>("ch_1".to_owned())
    ///     })
    ///     .await?;
    /// match outcome {
    ///     Outcome::Executed(Ok(id)) | Outcome::Replayed(Ok(id)) => println!("charged: {id}"),
    ///     Outcome::InProgress(running) => println!("again in {:?}", running.retry_after()),
    ///     Outcome::Mismatch(_) => println!("this key stands for another order"),
    ///     Outcome::NotKept(_) => println!("charged, look it up"),
    ///     Outcome::Unknown(_) => println!("perhaps charged, look it up"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store could not answer, or a stored answer cannot be read: `work` was not run. What goes
    /// wrong after `work` has run is an [`Event`](super::Event), and the caller still gets its result;
    /// but for [`Error::RolledBack`], where the result speaks of what is not there.
    ///
    /// # Panics
    /// When `work` panics; the key is then released as unknown.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work` where it stands and leaves the key to its lease; the next
    /// attempt is told that it is not the first. Spawn the call as a task to let it end.
    pub async fn run<T, E, F, Fut>(
        &self,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<T, E>, Error>
    where
        T: Serialize + DeserializeOwned + Send + Sync,
        E: Classify + Serialize + DeserializeOwned + Send + Sync,
        F: FnOnce(Attempt) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        self.run_with(key, fingerprint, E::disposition, work).await
    }

    /// As [`run`](Self::run), for an error type that cannot say itself what is final.
    ///
    /// # Errors
    /// As `run`.
    ///
    /// # Panics
    /// As `run`.
    ///
    /// # Cancel safety
    /// As `run`.
    pub async fn run_with<T, E, C, F, Fut>(
        &self,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
        classify: C,
        work: F,
    ) -> Result<Outcome<T, E>, Error>
    where
        T: Serialize + DeserializeOwned + Send + Sync,
        E: Serialize + DeserializeOwned + Send + Sync,
        C: FnOnce(&E) -> Disposition + Send,
        F: FnOnce(Attempt) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let guard = match self.begin(key, fingerprint).await? {
            Begun::Acquired(guard) => guard,
            Begun::Replayed(replayed) => return replay(&replayed),
            Begun::InProgress(running) => return Ok(Outcome::InProgress(running)),
            Begun::Mismatch(mismatch) => return Ok(Outcome::Mismatch(mismatch)),
            Begun::Unknown(abandoned) => return Ok(Outcome::Unknown(abandoned)),
        };
        let attempt = guard.attempt().clone();
        let span = attempt.span();
        let work = async { work(attempt).await }.instrument(span);
        let ended = AssertUnwindSafe(work).catch_unwind().await;
        let result = match ended {
            Ok(result) => result,
            Err(panic) => give_up(guard, panic).await,
        };
        let disposition = match &result {
            Ok(_) => Disposition::Store,
            Err(error) => self.settings.policy.of_error(classify(error)),
        };
        let committed = finish(guard, disposition, &result, self.settings.codec).await?;
        // what every repetition gets, whatever the work made of its commit
        let committed = committed.and_then(|answer| answer.to_value().ok());
        Ok(Outcome::Executed(committed.unwrap_or(result)))
    }
}

fn replay<T, E>(replayed: &Replayed) -> Result<Outcome<T, E>, Error>
where
    T: DeserializeOwned,
    E: DeserializeOwned,
{
    if let AnswerBody::NotKept(reason) = replayed.answer.body() {
        let Replayed { attempt, age, .. } = *replayed;
        return Ok(Outcome::NotKept(NotKept { reason, attempt, age }));
    }
    Ok(Outcome::Replayed(replayed.answer.to_value()?))
}

/// A panic says nothing about how far the work came.
async fn give_up(guard: ClaimGuard, panic: Box<dyn Any + Send>) -> ! {
    let _told = end(guard, Otherwise::Release(Release::Unknown)).await;
    resume_unwind(panic)
}

/// Tells the store how the work ended. The caller has its result in any case; what could not be
/// recorded is an event.
async fn finish<T, E>(
    guard: ClaimGuard,
    disposition: Disposition,
    result: &Result<T, E>,
    codec: Codec,
) -> Result<Option<Answer>, Error>
where
    T: Serialize + Sync,
    E: Serialize + Sync,
{
    let how = match disposition {
        Disposition::Store => Otherwise::Complete(
            Answer::value(result, codec)
                .unwrap_or_else(|_| Answer::not_kept(NotKeptReason::NotEncodable)),
        ),
        Disposition::Failed => Otherwise::Release(Release::Failed),
        Disposition::NotStarted => Otherwise::Release(Release::NotStarted),
        Disposition::Unknown => Otherwise::Release(Release::Unknown),
    };
    end(guard, how).await
}

/// The answer that the work has committed by its own means, if it has.
async fn end(guard: ClaimGuard, how: Otherwise) -> Result<Option<Answer>, Error> {
    if guard.attempt().joined_answer().is_some() {
        let is_final = matches!(how, Otherwise::Complete(_));
        return match guard.joined(how).await {
            Joined::Committed(answer) => Ok(Some(answer)),
            // an answer of what is not there
            Joined::Released(_) | Joined::Lost if is_final => Err(Error::RolledBack),
            _ => Ok(None),
        };
    }
    match how {
        Otherwise::Complete(answer) => {
            let _told = guard.complete(answer).await;
        }
        // a failed release is an event; its lease then ends the claim
        Otherwise::Release(release) => {
            let _told = guard.release(release).await;
        }
    }
    Ok(None)
}
