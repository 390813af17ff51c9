use std::{num::NonZeroU64, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{CheckpointError, EventKind, call::backoff, held::Held, settings::Settings};
use crate::store::RenewOutcome;

/// A request to save a checkpoint, and where to say what became of it.
type Save = (Bytes, oneshot::Sender<Result<(), CheckpointError>>);

/// Hands checkpoints to the heartbeat, so that at most one renewal is in flight (C62).
#[derive(Clone, Debug)]
pub(super) struct CheckpointSender(mpsc::Sender<Save>);

impl CheckpointSender {
    pub(super) async fn send(&self, checkpoint: Bytes) -> Result<(), CheckpointError> {
        let (reply, answer) = oneshot::channel();
        // a heartbeat that has ended no longer holds anything
        self.0.send((checkpoint, reply)).await.map_err(|_| CheckpointError::Lost)?;
        answer.await.unwrap_or(Err(CheckpointError::Lost))
    }
}

/// A running heartbeat. Dropping it aborts the task.
#[derive(Debug)]
pub(super) struct Heartbeat {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Heartbeat {
    /// Starts to renew, from `sequence` on.
    pub(super) fn start(
        held: Held,
        settings: &Settings,
        sequence: NonZeroU64,
    ) -> (Self, CheckpointSender) {
        let (sender, saves) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let now = held.shared.clock.monotonic();
        let beat = Beat {
            held,
            saves,
            stop: stop.clone(),
            every: settings.heartbeat,
            timeout: settings.store_timeout,
            hold_until: now.saturating_add(settings.max_hold),
            sequence,
        };
        (Self { stop, task: tokio::spawn(beat.run()) }, CheckpointSender(sender))
    }

    /// Lets a renewal that is in flight end, then ends the task (C62).
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        // an error means that the task is gone: the runtime ends, or the store's renewal panicked
        let _ended = (&mut self.task).await;
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Beat {
    held: Held,
    saves: mpsc::Receiver<Save>,
    stop: CancellationToken,
    every: Duration,
    timeout: Duration,
    hold_until: Duration,
    /// Of the next renewal.
    sequence: NonZeroU64,
}

impl Beat {
    async fn run(mut self) {
        let stop = self.stop.clone();
        loop {
            let clock = Arc::clone(&self.held.shared.clock);
            let save = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(save) = self.saves.recv() => Some(save),
                () = clock.sleep(self.every) => None,
            };
            if clock.monotonic() >= self.hold_until {
                return self.let_go(&stop).await;
            }
            if !self.renew(save, &stop).await {
                return;
            }
        }
    }

    /// Renews until it succeeds or the lease is over. False: the task has nothing more to do.
    async fn renew(&mut self, save: Option<Save>, stop: &CancellationToken) -> bool {
        let sequence = self.sequence;
        self.sequence = sequence.saturating_add(1);
        let (mut checkpoint, mut reply) = save.unzip();
        let clock = Arc::clone(&self.held.shared.clock);
        let mut tries = 0;
        loop {
            let left = self.held.lease_state.deadline().saturating_sub(clock.monotonic());
            // a lease that is over already gets one try all the same: perhaps nobody took over
            let patience = if left.is_zero() { self.timeout } else { left };
            let renewed = tokio::select! {
                biased;
                renewed =
                    self.held.renew(sequence, checkpoint.as_ref(), self.timeout, Duration::ZERO)
                    => renewed,
                () = clock.sleep(patience) => {
                    answer(reply, Err(CheckpointError::Lost));
                    self.held.lose();
                    return false;
                }
            };
            let error = match renewed {
                Ok(RenewOutcome::Held { .. }) => {
                    answer(reply, Ok(()));
                    return true;
                }
                Ok(RenewOutcome::Lost) => {
                    answer(reply, Err(CheckpointError::Lost));
                    return false;
                }
                Err(error) => error,
            };
            let transient = error.is_transient();
            if reply.is_some() && !transient {
                // refused for what it is: the lease needs its renewal without it
                checkpoint = None;
                answer(reply.take(), Err(error.into()));
                continue;
            }
            let left = self.held.lease_state.deadline().saturating_sub(clock.monotonic());
            if left.is_zero() {
                answer(reply, Err(error.into()));
                self.held.lose();
                return false;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    answer(reply, Err(error.into()));
                    return false;
                }
                () = clock.sleep(backoff(tries).min(left)) => tries += 1,
            }
        }
    }

    /// The work runs longer than it may hold its key: the lease ends, and the work is told then.
    async fn let_go(&mut self, stop: &CancellationToken) {
        self.held.observe(EventKind::HoldLimitReached);
        self.saves.close();
        let clock = Arc::clone(&self.held.shared.clock);
        let left = self.held.lease_state.deadline().saturating_sub(clock.monotonic());
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = clock.sleep(left) => self.held.lose(),
        }
    }
}

/// Whoever asked may have gone; then nobody wants to know.
fn answer(
    reply: Option<oneshot::Sender<Result<(), CheckpointError>>>,
    result: Result<(), CheckpointError>,
) {
    if let Some(reply) = reply {
        let _gone = reply.send(result);
    }
}
