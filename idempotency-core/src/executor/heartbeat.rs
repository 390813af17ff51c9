use std::{num::NonZeroU64, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    CheckpointError, EventKind,
    call::backoff,
    held::Held,
    pacer::{Pacer, Place},
    pulse::{CheckpointSender, Pulse, Save},
    settings::Settings,
};
use crate::store::{Effect, RenewOutcome};

/// Keeps a claim alive. Dropping it ends that, in the middle of a renewal too.
#[derive(Debug)]
pub(super) struct Heartbeat {
    pulse: Arc<Pulse>,
    pacer: Arc<Pacer>,
    place: Place,
    /// How long a renewal may be in flight.
    timeout: Duration,
}

impl Heartbeat {
    /// Renews from `sequence` on, for the first time after a heartbeat.
    pub(super) fn start(
        held: Held,
        settings: &Settings,
        sequence: NonZeroU64,
    ) -> (Self, CheckpointSender) {
        let (pulse, pacer) = (Arc::<Pulse>::default(), Arc::clone(&held.shared.pacer));
        let now = held.shared.clock.monotonic();
        let next_at = now.saturating_add(settings.heartbeat);
        let beat = Beat {
            held,
            pulse: Arc::clone(&pulse),
            every: settings.heartbeat,
            timeout: settings.store_timeout,
            hold_until: now.saturating_add(settings.max_hold),
            next_at,
            sequence,
        };
        let place = pacer.start_at(next_at, beat);
        let sender = CheckpointSender::new(&pulse, &pacer, place);
        (Self { pulse, pacer, place, timeout: settings.store_timeout }, sender)
    }

    /// Lets a renewal that is in flight end; there is no other after it (C62).
    pub(super) async fn stop(self) {
        self.pulse.stop(self.pacer.clock(), self.timeout).await;
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.pulse.abort();
        self.pacer.cancel(self.place);
    }
}

/// A heartbeat, waiting for its first renewal or in a task of its own.
#[derive(Debug)]
pub(super) struct Beat {
    held: Held,
    pulse: Arc<Pulse>,
    every: Duration,
    timeout: Duration,
    hold_until: Duration,
    /// When the next renewal is due, and its number.
    next_at: Duration,
    sequence: NonZeroU64,
}

impl Drop for Beat {
    /// However it ends: nobody waits for it or for a checkpoint any more. When nobody has ended it, but
    /// a panic of the store or the end of its runtime, the work is told that nothing keeps its key.
    fn drop(&mut self) {
        if self.pulse.end_for_good() {
            return;
        }
        if std::thread::panicking() {
            // without the event: an observer that panics again would end the process
            self.held.lease_state.lost.cancel();
        } else {
            self.held.lose();
        }
    }
}

impl Beat {
    pub(super) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    pub(super) async fn run(mut self) {
        let pulse = self.pulse();
        let clock = Arc::clone(&self.held.shared.clock);
        loop {
            let pause = self.next_at.saturating_sub(clock.monotonic());
            let save = tokio::select! {
                biased;
                () = pulse.stopped() => return,
                save = pulse.save() => Some(save),
                () = clock.sleep(pause) => None,
            };
            if clock.monotonic() >= self.hold_until {
                return self.let_go().await;
            }
            if !pulse.begin() || !self.renew(save, &pulse).await || !pulse.end() {
                return;
            }
            self.next_at = clock.monotonic().saturating_add(self.every);
        }
    }

    /// Renews until it succeeds or the lease is over. False: the task has nothing more to do.
    async fn renew(&mut self, save: Option<Save>, pulse: &Pulse) -> bool {
        let sequence = self.sequence;
        self.sequence = sequence.saturating_add(1);
        let (mut checkpoint, mut reply) = save.unzip();
        let clock = Arc::clone(&self.held.shared.clock);
        let mut tries = 0;
        let mut may_be_saved = false;
        loop {
            let left = self.held.lease_state.deadline().saturating_sub(clock.monotonic());
            if left.is_zero() && tries > 0 {
                answer(reply, Err(CheckpointError::Lost));
                self.held.lose();
                return false;
            }
            // after a stall the lease can be over before the first try: perhaps nobody took over
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
            may_be_saved |= error.effect() == Effect::Unknown;
            let error = if may_be_saved { error.after_unknown_effect() } else { error };
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
                () = pulse.stopped() => {
                    answer(reply, Err(error.into()));
                    return false;
                }
                () = clock.sleep(backoff(tries).min(left)) => tries += 1,
            }
        }
    }

    /// The work runs longer than it may hold its key: the lease ends, and the work is told then.
    async fn let_go(&mut self) {
        self.held.observe(EventKind::HoldLimitReached);
        self.pulse.refuse_saves();
        let clock = Arc::clone(&self.held.shared.clock);
        let left = self.held.lease_state.deadline().saturating_sub(clock.monotonic());
        tokio::select! {
            biased;
            () = self.pulse.stopped() => {}
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
