use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use idempotency_core::{Sleep, Timestamp};
use tokio::{runtime::Handle, sync::Notify, task};

use crate::{records::Records, shard::NEVER};

/// The background task that lets expired records leave, seen from the records.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    shared: Arc<Shared>,
}

/// What the records share with the task. It holds no record, so the task can outlive them for as long
/// as it takes to notice.
#[derive(Debug, Default)]
struct Shared {
    running: AtomicBool,
    wake: Notify,
    /// The task sleeps until this moment; the end of time while it is awake.
    sleeps_until: AtomicU64,
}

/// How many records are looked at between two yields: some 100 microseconds.
const BATCH: usize = 256;

impl Sweeper {
    /// Wakes the task if it would sleep beyond `moment`.
    pub(crate) fn wake_before(&self, moment: Timestamp) {
        if moment.as_unix_millis() < self.shared.sleeps_until.load(Ordering::SeqCst) {
            self.shared.wake.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.shared.wake.notify_one();
    }

    /// Starts the task on the caller's runtime unless it runs already. Answers false where there is no
    /// runtime.
    pub(crate) fn ensure_running(&self, records: &Arc<Records>) -> bool {
        if self.shared.running.load(Ordering::Relaxed) {
            return true;
        }
        let Ok(runtime) = Handle::try_current() else {
            return false;
        };
        if !self.shared.running.swap(true, Ordering::AcqRel) {
            let running = Running(Arc::clone(&self.shared));
            runtime.spawn(run(Arc::downgrade(records), running));
        }
        true
    }
}

/// Lives inside the task. When the task ends, or its runtime ends it, the next claim starts another.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
    }
}

async fn run(records: Weak<Records>, running: Running) {
    let shared = &running.0;
    while let Some(records) = records.upgrade() {
        if records.sweep(BATCH).more {
            drop(records);
            task::yield_now().await;
            continue;
        }
        let pause = pause(&records, shared);
        drop(records);
        match pause {
            Pause::Over => task::yield_now().await,
            Pause::Endless => shared.wake.notified().await,
            Pause::For(sleep) => tokio::select! {
                () = sleep => {}
                () = shared.wake.notified() => {}
            },
        }
    }
}

enum Pause {
    Over,
    For(Sleep),
    Endless,
}

/// The pause until the next registration is due. What is registered earlier from now on, wakes the
/// task.
fn pause(records: &Records, shared: &Shared) -> Pause {
    // first everybody wakes the task, then the shards are looked at: nobody is missed
    shared.sleeps_until.store(NEVER.as_unix_millis(), Ordering::SeqCst);
    let next = records.earliest();
    if next == NEVER {
        return Pause::Endless;
    }
    shared.sleeps_until.store(next.as_unix_millis(), Ordering::SeqCst);
    let now = records.clock.now();
    if next < now {
        return Pause::Over;
    }
    // the last moment of a record still counts: it is due the millisecond after
    let sleep = records.clock.sleep(next.since(now).saturating_add(Duration::from_millis(1)));
    // a clock that moved between the two lines makes the sleep too long
    if records.clock.now() == now { Pause::For(sleep) } else { Pause::Over }
}
