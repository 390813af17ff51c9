use std::{future::Future, time::Duration};

use super::{EventKind, Measurement, shared::Shared};
use crate::{
    key::IdempotencyKey,
    store::{Effect, ErrorKind, Operation, StoreError},
};

/// An answer of the store, and the instant before the try that was answered was sent (C61).
#[derive(Debug)]
pub(super) struct Answered<A> {
    pub(super) answer: A,
    pub(super) sent_at: Duration,
}

/// One operation, tried again with the same arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) shared: &'a Shared,
    pub(super) key: &'a IdempotencyKey,
    pub(super) operation: Operation,
    /// How long one try may take.
    pub(super) timeout: Duration,
    /// When tries end, on the monotonic clock. One try is made in any case.
    pub(super) until: Duration,
    /// Which failures are tried again.
    pub(super) again: fn(&StoreError) -> bool,
}

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Call<'_> {
    /// Tries until the store answers, the failure is not worth a repetition, or the time is over.
    pub(super) async fn run<A, F, Fut>(self, mut attempt: F) -> Result<Answered<A>, StoreError>
    where
        F: FnMut() -> Fut + Send,
        Fut: Future<Output = Result<A, StoreError>> + Send,
    {
        let clock = &self.shared.clock;
        let mut may_have_happened = false;
        let mut tries = 0;
        loop {
            let sent_at = clock.monotonic();
            let error = match self.once(sent_at, attempt()).await {
                Ok(answer) => return Ok(Answered { answer, sent_at }),
                Err(error) => error,
            };
            may_have_happened |= error.effect() == Effect::Unknown;
            let left = self.until.saturating_sub(clock.monotonic());
            if left.is_zero() || !(self.again)(&error) {
                let error = if may_have_happened { error.after_unknown_effect() } else { error };
                return Err(error);
            }
            clock.sleep(backoff(tries).min(left)).await;
            tries += 1;
        }
    }

    /// One try, within the time-out.
    async fn once<A>(
        self,
        sent_at: Duration,
        attempt: impl Future<Output = Result<A, StoreError>> + Send,
    ) -> Result<A, StoreError> {
        // a timer is made only when the store does not answer at once
        let time_out = async { self.shared.clock.sleep(self.timeout).await };
        let answer = tokio::select! {
            biased;
            answer = attempt => answer,
            () = time_out => {
                let detail = format!("nothing within {:?}", self.timeout);
                Err(StoreError::new(self.operation, ErrorKind::Timeout, detail))
            }
        };
        let error = answer.as_ref().err().map(StoreError::kind);
        if let Some(now) = self.shared.measuring_since() {
            let (operation, elapsed) = (self.operation, now.saturating_sub(sent_at));
            self.shared.measure(Measurement::StoreCall { operation, error, elapsed });
        }
        if let Some(error) = error {
            let kind = EventKind::StoreFailed(self.operation, error);
            self.shared.observe(kind, self.key, None, None);
        }
        answer
    }
}

/// Exponential with full jitter.
pub(super) fn backoff(tries: u32) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << tries.min(10)).min(LONGEST_PAUSE);
    longest.mul_f64(fastrand::f64())
}
