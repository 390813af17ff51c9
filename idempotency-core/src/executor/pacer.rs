use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::Notify};

use super::heartbeat::Beat;
use crate::time::Clock;

/// Starts heartbeats when their first renewal is due, or a checkpoint is to be saved.
///
/// Most claims end long before that. A task for each of them would cost more than all else that the
/// executor does; so one task waits for all, while there are any.
#[derive(Debug)]
pub(super) struct Pacer {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<Place, Waiting>,
    last_number: u64,
    is_running: bool,
    /// When the task looks again.
    wakes_at: Duration,
}

/// Where a heartbeat waits: the first is due first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    due: Duration,
    number: u64,
}

/// A heartbeat that has not started, and the runtime that its claim was made in.
#[derive(Debug)]
struct Waiting {
    beat: Box<Beat>,
    runtime: Handle,
}

impl Waiting {
    fn start(self) {
        let pulse = self.beat.pulse();
        let task = self.runtime.spawn(self.beat.run());
        pulse.started(task.abort_handle());
    }
}

impl Pacer {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default(), changed: Notify::new() }
    }

    /// Starts `beat` at `due`.
    pub(super) fn start_at(self: &Arc<Self>, due: Duration, beat: Beat) -> Place {
        let runtime = Handle::current();
        let mut state = self.state();
        state.last_number += 1;
        let place = Place { due, number: state.last_number };
        let (was_running, is_early) = (state.is_running, due < state.wakes_at);
        state.is_running = true;
        if !was_running {
            state.wakes_at = Duration::ZERO;
        }
        let waiting = Waiting { beat: Box::new(beat), runtime: runtime.clone() };
        state.waiting.insert(place, waiting);
        drop(state);
        if !was_running {
            let pacing = Pacing { pacer: Arc::clone(self), has_ended: false };
            runtime.spawn(pacing.run());
        } else if is_early {
            self.changed.notify_one();
        }
        place
    }

    /// Starts the heartbeat at `place` if it still waits.
    pub(super) fn start_now(&self, place: Place) {
        let waiting = self.state().waiting.remove(&place);
        if let Some(waiting) = waiting {
            waiting.start();
        }
    }

    /// Drops the heartbeat at `place` if it still waits. False: it has started.
    pub(super) fn cancel(&self, place: Place) -> bool {
        let waiting = self.state().waiting.remove(&place);
        waiting.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task.
struct Pacing {
    pacer: Arc<Pacer>,
    has_ended: bool,
}

enum Next {
    Start(Waiting),
    Sleep(Duration),
    End,
}

impl Pacing {
    async fn run(mut self) {
        loop {
            match self.next() {
                Next::Start(waiting) => waiting.start(),
                Next::Sleep(time) => tokio::select! {
                    biased;
                    () = self.pacer.changed.notified() => {}
                    () = self.pacer.clock.sleep(time) => {}
                },
                Next::End => return,
            }
        }
    }

    fn next(&mut self) -> Next {
        let now = self.pacer.clock.monotonic();
        let mut state = self.pacer.state();
        let Some(first) = state.waiting.first_entry() else {
            state.is_running = false;
            drop(state);
            self.has_ended = true;
            return Next::End;
        };
        let due = first.key().due;
        let left = due.saturating_sub(now);
        if left.is_zero() {
            return Next::Start(first.remove());
        }
        state.wakes_at = due;
        Next::Sleep(left)
    }
}

impl Drop for Pacing {
    /// The runtime of this task ends, and claims of other runtimes may wait: their heartbeats start
    /// now.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut state = self.pacer.state();
        state.is_running = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_values().for_each(Waiting::start);
    }
}
