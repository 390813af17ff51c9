use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
pub(super) enum Phase {
    #[default]
    Resting,
    /// A renewal is in flight.
    Renewing,
    /// No renewal is in flight that was not when it was stopped, and none begins.
    Stopped,
}

impl Pulse {
    /// Stops; says what the task was doing.
    pub(super) fn stop(&self) -> Phase {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.phase, Phase::Stopped);
        state.saves.clear();
        drop(state);
        self.stopped.notify_one();
        before
    }

    /// Ends when it is stopped.
    pub(super) async fn stopped(&self) {
        while self.state().phase != Phase::Stopped {
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
        let was_stopped = self.stop() == Phase::Stopped;
        let mut state = self.state();
        state.has_ended = true;
        let was_aborted = state.is_aborted;
        drop(state);
        self.ended.notify_one();
        was_stopped || was_aborted
    }

    /// Ends when the heartbeat is gone.
    pub(super) async fn ended(&self) {
        while !self.state().has_ended {
            self.ended.notified().await;
        }
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
        let goes_on = state.phase != Phase::Stopped;
        if goes_on {
            state.phase = phase;
        }
        goes_on
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            if state.phase == Phase::Stopped || state.refuses_saves {
                return Err(CheckpointError::Lost);
            }
            state.saves.push_back((checkpoint, reply));
        }
        self.pulse.saved.notify_one();
        self.pacer.start_now(self.place);
        answer.await.unwrap_or(Err(CheckpointError::Lost))
    }
}
