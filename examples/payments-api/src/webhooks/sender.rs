use std::{sync::Arc, time::Duration};

use anyhow::Result;
use backon::{BackoffBuilder, ExponentialBuilder};
use idempotency::{Clock, SystemClock};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    Endpoint, Outbox,
    endpoint::{Caller, Failure},
    outbox::{Outcome, State, Taken},
};

/// Empties the outbox. All it knows of an event is in the outbox, so that another sender can go on with it.
#[derive(Debug)]
pub(crate) struct Sender {
    outbox: Arc<dyn Outbox>,
    caller: Caller,
    backoff: ExponentialBuilder,
    clock: SystemClock,
    /// How long an event that is taken is nobody else's: longer than its try can take.
    hold: Duration,
    /// Between two looks for events that have become due, or that others have left.
    pause: Duration,
}

/// A sender at work.
#[derive(Debug)]
#[must_use = "close it"]
pub(crate) struct Sending {
    closing: CancellationToken,
    task: JoinHandle<()>,
}

/// Requests at once. An endpoint that is down holds none of them while it is waited for.
const MAX_AT_ONCE: usize = 16;
/// The longest wait between two tries.
const MAX_WAIT: Duration = Duration::from_hours(1);
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// What a hold leaves to the outbox, beside the endpoint's time.
const SLACK: Duration = Duration::from_secs(5);

impl Sender {
    pub(crate) fn new(outbox: Arc<dyn Outbox>, endpoint: &Endpoint) -> Result<Self> {
        let backoff = ExponentialBuilder::default()
            .with_min_delay(endpoint.backoff)
            .with_max_delay(MAX_WAIT.max(endpoint.backoff))
            .with_max_times(endpoint.tries.saturating_sub(1))
            .with_jitter();
        Ok(Self {
            outbox,
            caller: Caller::new(endpoint)?,
            backoff,
            clock: SystemClock::new(),
            hold: endpoint.timeout.saturating_add(SLACK),
            pause: endpoint.backoff.clamp(MIN_PAUSE, MAX_PAUSE),
        })
    }

    /// Sends what is in the outbox, and what comes into it, until it is closed.
    pub(crate) fn start(self) -> Sending {
        let closing = CancellationToken::new();
        let task = tokio::spawn(Arc::new(self).run(closing.clone()));
        Sending { closing, task }
    }

    async fn run(self: Arc<Self>, closing: CancellationToken) {
        let mut tries = JoinSet::new();
        while !closing.is_cancelled() {
            let free = MAX_AT_ONCE.saturating_sub(tries.len());
            for taken in self.take(free).await {
                tries.spawn(Arc::clone(&self).deliver(taken));
            }
            tokio::select! {
                Some(_) = tries.join_next() => {}
                () = self.outbox.added() => {}
                () = tokio::time::sleep(self.pause) => {}
                () = closing.cancelled() => {}
            }
        }
        if !self.outbox.is_durable() {
            self.try_the_rest(&mut tries).await;
        }
        while tries.join_next().await.is_some() {}
        if !self.outbox.is_durable() {
            self.count_the_lost().await;
        }
    }

    /// What is due, and would end with this process, gets one more try.
    async fn try_the_rest(self: &Arc<Self>, tries: &mut JoinSet<()>) {
        for taken in self.take(usize::MAX).await {
            if tries.len() >= MAX_AT_ONCE {
                tries.join_next().await;
            }
            tries.spawn(Arc::clone(self).deliver(taken));
        }
    }

    async fn count_the_lost(&self) {
        let deliveries = self.outbox.deliveries().await.unwrap_or_default();
        let lost = deliveries.iter().filter(|delivery| delivery.state == State::Waiting).count();
        if lost > 0 {
            tracing::warn!(lost, "webhooks are lost with the memory of this process");
        }
    }

    /// An outbox that does not answer is asked again after the pause.
    async fn take(&self, most: usize) -> Vec<Taken> {
        if most == 0 {
            return Vec::new();
        }
        self.outbox.take(most, self.hold).await.unwrap_or_else(|error| {
            tracing::warn!(error = error.told(), "events cannot be taken from the outbox");
            Vec::new()
        })
    }

    async fn deliver(self: Arc<Self>, taken: Taken) {
        let Taken { event, tries } = &taken;
        let outcome = match self.caller.send(event, self.clock.now()).await {
            Ok(()) => Outcome::Delivered,
            Err(failure) => self.after(failure, *tries),
        };
        match &outcome {
            Outcome::Delivered => {}
            Outcome::Failed { failure, wait } => {
                tracing::info!(event = event.id, failure, ?wait, "a webhook is tried again");
            }
            Outcome::GivenUp { failure } => {
                tracing::warn!(event = event.id, failure, "a webhook is given up");
            }
        }
        if let Err(error) = self.outbox.tried(&taken, outcome).await {
            // it is taken for the try of a process that died
            let told = error.told();
            tracing::warn!(event = event.id, told, "a webhook that was tried may be sent again");
        }
    }

    fn after(&self, failure: Failure, tries: u32) -> Outcome {
        let Failure { what: failure, is_final, retry_after } = failure;
        let tries = usize::try_from(tries).unwrap_or(usize::MAX);
        match self.backoff.build().nth(tries.saturating_sub(1)).filter(|_| !is_final) {
            None => Outcome::GivenUp { failure },
            Some(wait) => {
                let wait = retry_after.map_or(wait, |told| wait.max(told.min(MAX_WAIT)));
                Outcome::Failed { failure, wait }
            }
        }
    }
}

impl Sending {
    /// Waits for the tries that have begun. Events that would end with the process get one more try first;
    /// others wait for the next process.
    pub(crate) async fn close(self) {
        self.closing.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the sender of webhooks broke");
        }
    }
}
