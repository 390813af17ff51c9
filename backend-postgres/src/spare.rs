use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sqlx::{Postgres, pool::PoolConnection};
use tokio::{runtime::Handle, time};

/// Connections that go from one operation to the next past the pool, which asks the server whether it is
/// there whenever it takes one back: a second round trip an operation.
///
/// Only of a pool that the store has made: another one's users would wait for a connection that lies
/// here. None stays longer than two [`TURN`]s, and none while somebody waits for the pool.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Spare>,
    /// Operations that wait for the pool.
    waiting: usize,
    /// Counts the turns, in place of a clock.
    turn: u64,
    is_turning: bool,
}

/// A connection, and the turn in which it left the pool.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) connection: PoolConnection<Postgres>,
    pub(crate) since: u64,
}

/// Long enough for thousands of operations: each turn wakes a second thread of the runtime, which then
/// looks at the sockets for the first one. Short enough for whoever else waits for a connection of this
/// pool.
const TURN: Duration = Duration::from_millis(100);

impl Spares {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that lies here; or a place among those who wait for the pool.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Spare, WaitsForPool> {
        let mut state = self.lock();
        if let Some(spare) = state.free.pop() {
            return Ok(spare);
        }
        state.waiting += 1;
        drop(state);
        Err(WaitsForPool { spares: Arc::clone(self) })
    }

    /// Keeps a connection on which nothing is under way, or gives it back to the pool.
    pub(crate) fn put(self: &Arc<Self>, spare: Spare) {
        let Ok(runtime) = Handle::try_current() else {
            drop(spare.connection.detach());
            return;
        };
        let mut state = self.lock();
        if state.waiting > 0 || spare.is_over(state.turn) {
            drop(state);
            drop(spare);
            return;
        }
        state.free.push(spare);
        if !mem::replace(&mut state.is_turning, true) {
            drop(state);
            runtime.spawn(Turning { spares: Arc::clone(self), has_ended: false }.run());
        }
    }
}

impl Spare {
    /// A connection has to be back in the pool from time to time: others wait for it there, and there
    /// it is found too old.
    const fn is_over(&self, turn: u64) -> bool {
        turn > self.since + 1
    }
}

/// Without a runtime nothing can be given back.
impl Drop for Spares {
    fn drop(&mut self) {
        if Handle::try_current().is_err() {
            for spare in mem::take(&mut self.lock().free) {
                drop(spare.connection.detach());
            }
        }
    }
}

/// One who waits for the pool: until it ends, what is given back goes there.
#[derive(Debug)]
pub(crate) struct WaitsForPool {
    spares: Arc<Spares>,
}

impl WaitsForPool {
    /// The turn in which the pool has given a connection.
    pub(crate) fn turn(&self) -> u64 {
        self.spares.lock().turn
    }
}

impl Drop for WaitsForPool {
    fn drop(&mut self) {
        self.spares.lock().waiting -= 1;
    }
}

/// Gives back what lies around, until nothing does.
struct Turning {
    spares: Arc<Spares>,
    has_ended: bool,
}

/// The runtime has ended: the next one turns anew.
impl Drop for Turning {
    fn drop(&mut self) {
        if !self.has_ended {
            self.spares.lock().is_turning = false;
        }
    }
}

impl Turning {
    async fn run(mut self) {
        loop {
            time::sleep(TURN).await;
            let mut state = self.spares.lock();
            state.turn += 1;
            let turn = state.turn;
            let (over, free) =
                mem::take(&mut state.free).into_iter().partition(|spare| spare.is_over(turn));
            state.free = free;
            let is_idle = state.free.is_empty();
            state.is_turning = !is_idle;
            self.has_ended = is_idle;
            drop(state);
            drop::<Vec<Spare>>(over);
            if is_idle {
                return;
            }
        }
    }
}
