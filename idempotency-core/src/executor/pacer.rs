use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::{self, Handle},
    sync::Notify,
};

use super::heartbeat::Beat;
use crate::time::Clock;

/// Starts heartbeats when their first renewal is due, or a checkpoint is to be saved.
///
/// Most claims end long before that. A task for each of them would cost more than all else that the
/// executor does; so one task waits for all of a runtime, while there are any. Not for those of another
/// runtime: nobody knows whether this one is still driven when they are due.
#[derive(Debug)]
pub(super) struct Pacer {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of the runtimes that have a task.
    lanes: HashMap<runtime::Id, Lane>,
    last_number: u64,
}

/// The heartbeats that wait in one runtime.
#[derive(Debug, Default)]
struct Lane {
    waiting: BTreeMap<Turn, Waiting>,
    /// When the task looks again.
    wakes_at: Duration,
    changed: Arc<Notify>,
}

/// Where a heartbeat waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    runtime: runtime::Id,
    turn: Turn,
}

/// The first is due first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
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
        Self { clock, state: Mutex::default() }
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Starts `beat` at `due`.
    pub(super) fn start_at(self: &Arc<Self>, due: Duration, beat: Beat) -> Place {
        let runtime = Handle::current();
        let mut state = self.state();
        state.last_number += 1;
        let turn = Turn { due, number: state.last_number };
        let place = Place { runtime: runtime.id(), turn };
        let waiting = Waiting { beat: Box::new(beat), runtime: runtime.clone() };
        let was_running = state.lanes.contains_key(&place.runtime);
        let lane = state.lanes.entry(place.runtime).or_default();
        lane.waiting.insert(turn, waiting);
        let (is_early, changed) = (due < lane.wakes_at, Arc::clone(&lane.changed));
        drop(state);
        if !was_running {
            let (pacer, runtime_id) = (Arc::clone(self), place.runtime);
            runtime.spawn(Pacing { pacer, runtime: runtime_id, changed, has_ended: false }.run());
        } else if is_early {
            changed.notify_one();
        }
        place
    }

    /// Starts the heartbeat at `place` if it still waits.
    pub(super) fn start_now(&self, place: Place) {
        if let Some(waiting) = self.take(place) {
            waiting.start();
        }
    }

    /// Drops the heartbeat at `place` if it still waits.
    pub(super) fn cancel(&self, place: Place) {
        drop(self.take(place));
    }

    fn take(&self, place: Place) -> Option<Waiting> {
        self.state().lanes.get_mut(&place.runtime)?.waiting.remove(&place.turn)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of one runtime.
struct Pacing {
    pacer: Arc<Pacer>,
    runtime: runtime::Id,
    changed: Arc<Notify>,
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
                    () = self.changed.notified() => {}
                    () = self.pacer.clock.sleep(time) => {}
                },
                Next::End => return,
            }
        }
    }

    fn next(&mut self) -> Next {
        let now = self.pacer.clock.monotonic();
        let mut state = self.pacer.state();
        let lane = state.lanes.entry(self.runtime).or_default();
        let Some(first) = lane.waiting.first_entry() else {
            state.lanes.remove(&self.runtime);
            drop(state);
            self.has_ended = true;
            return Next::End;
        };
        let due = first.key().due;
        let left = due.saturating_sub(now);
        if left.is_zero() {
            return Next::Start(first.remove());
        }
        lane.wakes_at = due;
        Next::Sleep(left)
    }
}

impl Drop for Pacing {
    /// It was ended before its time, most likely with its runtime: what waits starts now, and ends
    /// there as well.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let lane = self.pacer.state().lanes.remove(&self.runtime);
        lane.into_iter().flat_map(|lane| lane.waiting.into_values()).for_each(Waiting::start);
    }
}
