use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, oneshot},
    task::AbortHandle,
};

use super::{
    CheckpointError,
    pacer::{Pacer, Place},
};
use crate::time::Clock;

/// A request to save a checkpoint, and where to say what became of it.
pub(super) type Save = (Bytes, oneshot::Sender<Result<(), CheckpointError>>);

/// What a heartbeat, its task and those who save checkpoints tell each other.
///
/// It is one small allocation: most claims end before their first renewal.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    state: Mutex<State>,
    stopped: Notify,
    saved: Notify,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    saves: VecDeque<Save>,
    refuses_saves: bool,
    is_aborted: bool,
    has_ended: bool,
    /// None: it waits for its first renewal.
    task: Option<AbortHandle>,
}

/// What the task does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Resting,
    /// A renewal is in flight.
    Renewing,
    /// The last renewal is in flight.
    Stopping,
    /// No renewal is in flight, and none begins.
    Stopped,
}

impl Pulse {
    /// Stops, and lets a renewal that is in flight end; there is no other after it (C62). Between two
    /// renewals there is nothing to wait for. Any number may stop it, and each of them waits.
    pub(super) async fn stop(&self, clock: &dyn Clock, timeout: Duration) {
        let in_flight = {
            let mut state = self.state();
            state.stop();
            state.phase == Phase::Stopping && !state.has_ended
        };
        self.stopped.notify_one();
        if in_flight {
            tokio::select! {
                biased;
                () = self.ended() => {}
                // the runtime of the renewal is not driven any more
                () = clock.sleep(timeout) => {}
            }
        }
    }

    /// Ends when it is stopped.
    pub(super) async fn stopped(&self) {
        while !self.state().is_stopped() {
            self.stopped.notified().await;
        }
    }

    /// The task has been started.
    pub(super) fn started(&self, task: AbortHandle) {
        let mut state = self.state();
        if state.is_aborted {
            task.abort();
        }
        state.task = Some(task);
    }

    /// Ends the task where it stands.
    pub(super) fn abort(&self) {
        let mut state = self.state();
        state.is_aborted = true;
        if let Some(task) = state.task.take() {
            task.abort();
        }
    }

    /// The heartbeat is gone. False: nobody has stopped or aborted it.
    pub(super) fn end_for_good(&self) -> bool {
        let mut state = self.state();
        let was_ended = state.is_stopped() || state.is_aborted;
        state.stop();
        state.has_ended = true;
        drop(state);
        self.stopped.notify_one();
        self.ended.notify_one();
        was_ended
    }

    /// Ends when the heartbeat is gone.
    async fn ended(&self) {
        while !self.state().has_ended {
            self.ended.notified().await;
        }
        // whoever else waits
        self.ended.notify_one();
    }

    /// The next checkpoint to be saved.
    pub(super) async fn save(&self) -> Save {
        loop {
            let next = self.state().saves.pop_front();
            match next {
                Some(save) => return save,
                None => self.saved.notified().await,
            }
        }
    }

    /// No checkpoint is saved from now on.
    pub(super) fn refuse_saves(&self) {
        let mut state = self.state();
        state.refuses_saves = true;
        state.saves.clear();
    }

    /// A renewal begins. False: it must not.
    pub(super) fn begin(&self) -> bool {
        self.becomes(Phase::Renewing)
    }

    /// The renewal has ended. False: there will be no other.
    pub(super) fn end(&self) -> bool {
        self.becomes(Phase::Resting)
    }

    fn becomes(&self, phase: Phase) -> bool {
        let mut state = self.state();
        let goes_on = !state.is_stopped();
        if goes_on {
            state.phase = phase;
        }
        goes_on
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stop(&mut self) {
        self.phase = match self.phase {
            Phase::Renewing | Phase::Stopping => Phase::Stopping,
            Phase::Resting | Phase::Stopped => Phase::Stopped,
        };
        self.saves.clear();
    }

    const fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopping | Phase::Stopped)
    }
}

/// Hands checkpoints to the heartbeat, so that at most one renewal is in flight (C62).
#[derive(Clone, Debug)]
pub(super) struct CheckpointSender {
    pulse: Arc<Pulse>,
    pacer: Arc<Pacer>,
    place: Place,
}

impl CheckpointSender {
    pub(super) fn new(pulse: &Arc<Pulse>, pacer: &Arc<Pacer>, place: Place) -> Self {
        Self { pulse: Arc::clone(pulse), pacer: Arc::clone(pacer), place }
    }

    pub(super) async fn send(&self, checkpoint: Bytes) -> Result<(), CheckpointError> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.pulse.state();
            // a heartbeat that has ended no longer holds anything
            if state.is_stopped() || state.refuses_saves {
                return Err(CheckpointError::Lost);
            }
            state.saves.push_back((checkpoint, reply));
        }
        self.pulse.saved.notify_one();
        self.pacer.start_now(self.place);
        answer.await.unwrap_or(Err(CheckpointError::Lost))
    }

    /// As [`Pulse::stop`].
    pub(super) async fn stop_heartbeat(&self, timeout: Duration) {
        self.pulse.stop(self.pacer.clock(), timeout).await;
    }
}
