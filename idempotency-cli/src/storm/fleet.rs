//! Worker processes: requests go in by their standard input, answers come out by their standard
//! output, one JSON document a line. A worker that says that it crashes is killed with SIGKILL, and so
//! are others now and then, in the middle of whatever they do; all are started again.

use std::{
    collections::HashMap,
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    Plan,
    ledger::Ledger,
    network::Gone,
    pace::Pace,
    shop::{Answer, Order},
    worker,
};
use crate::ended::Refused;

/// What the workers are.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) program: PathBuf,
    pub(super) url: String,
    pub(super) processes: usize,
}

/// A line to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) order: Order,
}

/// A line from a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Line {
    Answered {
        id: u64,
        answer: Answer,
    },
    /// The handler is where it crashes.
    Crashes,
}

/// The running workers.
#[derive(Debug)]
pub(super) struct Fleet {
    ledger: Ledger,
    /// Removed with this value.
    _file: NamedTempFile,
    slots: Vec<Arc<Slot>>,
    keepers: Mutex<Vec<JoinHandle<anyhow::Result<()>>>>,
    stop: CancellationToken,
    failed: CancellationToken,
    next_id: AtomicU64,
    payments_ended: AtomicU64,
}

/// The place of one worker, whichever process fills it.
#[derive(Debug, Default)]
struct Slot {
    connection: Mutex<Option<Connection>>,
    kill: Notify,
    killed: AtomicU64,
}

/// To a process that is running.
#[derive(Debug)]
struct Connection {
    requests: mpsc::UnboundedSender<Request>,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
}

impl Slot {
    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fleet {
    pub(super) fn start(crew: &Crew, pace: Pace) -> anyhow::Result<Self> {
        let file = tempfile::Builder::new().prefix("idempotency-storm-").tempfile()?;
        let ledger = Ledger::shared(file.path()).context("opening the ledger")?;
        let (stop, failed) = (CancellationToken::new(), CancellationToken::new());
        let slots: Vec<_> = (0..crew.processes).map(|_| Arc::new(Slot::default())).collect();
        let keepers = slots.iter().map(|slot| {
            let mut command = Command::new(&crew.program);
            command
                .args(["storm-worker", "--ledger"])
                .arg(file.path())
                .args(["--lease-ms", &pace.lease.as_millis().to_string()])
                // not as an argument: it may hold a password
                .env(worker::STORE_VARIABLE, &crew.url)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true);
            let kept = keep(Arc::clone(slot), command, stop.clone());
            let failed = failed.clone();
            tokio::spawn(async move { kept.await.inspect_err(|_| failed.cancel()) })
        });
        let keepers = Mutex::new(keepers.collect());
        let (next_id, payments_ended) = Default::default();
        Ok(Self { ledger, _file: file, slots, keepers, stop, failed, next_id, payments_ended })
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) async fn call(&self, order: Order, worker: usize) -> Result<Answer, Gone> {
        let (sender, answer) = oneshot::channel();
        {
            let slot = self.slots.get(worker % self.slots.len()).ok_or(Gone)?;
            let mut connection = slot.connection();
            let connection = connection.as_mut().ok_or(Gone)?;
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            connection.waiting.insert(id, sender);
            connection.requests.send(Request { id, order }).map_err(|_| Gone)?;
        }
        answer.await.map_err(|_| Gone)
    }

    /// Kills one worker, wherever it stands, so often that each is killed about four times in a world.
    pub(super) fn payment_ended(&self, plan: &Plan) {
        let ended = self.payments_ended.fetch_add(1, Ordering::Relaxed) + 1;
        let every = (plan.payments / (4 * self.slots.len() as u64)).max(1);
        if ended.is_multiple_of(every) {
            let victim = plan.schedule.victim(ended / every) % self.slots.len();
            if let Some(slot) = self.slots.get(victim) {
                slot.kill.notify_one();
            }
        }
    }

    /// Ends when a worker has ended without having been killed.
    pub(super) async fn failure(&self) -> anyhow::Error {
        self.failed.cancelled().await;
        let detail = "the storm ended: a worker process ended by itself, see what it said";
        Refused::StoreFailed(detail.to_owned()).into()
    }

    /// Ends all workers: how many had been killed.
    pub(super) async fn stop(&self) -> anyhow::Result<u64> {
        self.stop.cancel();
        let keepers: Vec<_> = {
            let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
            keepers.drain(..).collect()
        };
        for keeper in keepers {
            keeper.await.context("keeping a worker process")??;
        }
        Ok(self.slots.iter().map(|slot| slot.killed.load(Ordering::Relaxed)).sum())
    }
}

/// Keeps a process running in `slot`, until it is told to stop.
async fn keep(
    slot: Arc<Slot>,
    mut command: Command,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let mut child = command.spawn().context("starting a worker process")?;
        let (requests, incoming) = mpsc::unbounded_channel();
        *slot.connection() = Some(Connection { requests, waiting: HashMap::new() });
        let was_killed = serve(&slot, &mut child, incoming, &stop).await;
        // who waits for this process is told that the connection broke
        slot.connection().take();
        let _already_ended = child.start_kill();
        let status = child.wait().await.context("waiting for a worker process")?;
        if was_killed? {
            slot.killed.fetch_add(1, Ordering::Relaxed);
        } else if !stop.is_cancelled() {
            let detail = format!("the storm ended: a worker process ended by itself: {status}");
            return Err(Refused::StoreFailed(detail).into());
        }
    }
    Ok(())
}

/// Passes lines to and fro until the process has ended: whether it was killed.
async fn serve(
    slot: &Slot,
    child: &mut Child,
    mut incoming: mpsc::UnboundedReceiver<Request>,
    stop: &CancellationToken,
) -> anyhow::Result<bool> {
    let mut input = child.stdin.take().context("a worker has no standard input")?;
    let output = child.stdout.take().context("a worker has no standard output")?;
    let mut lines = BufReader::new(output).lines();
    let mut was_killed = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(was_killed),
            () = slot.kill.notified() => {
                child.start_kill().context("killing a worker process")?;
                was_killed = true;
            }
            line = lines.next_line() => match line.context("reading from a worker process")? {
                None => return Ok(was_killed),
                Some(line) => match serde_json::from_str(&line) {
                    Ok(Line::Answered { id, answer }) => {
                        let waiting = slot.connection().as_mut().and_then(|c| c.waiting.remove(&id));
                        // the client may have left
                        let _told = waiting.map(|sender| sender.send(answer));
                    }
                    Ok(Line::Crashes) => {
                        child.start_kill().context("killing a worker process")?;
                        was_killed = true;
                    }
                    // half a line is all that a killed process has to say
                    Err(_) if was_killed => {}
                    Err(error) => return Err(error).context("reading from a worker process"),
                },
            },
            Some(request) = incoming.recv() => {
                let mut line = serde_json::to_vec(&request)?;
                line.push(b'\n');
                // a process that is dying does not read; its end is told by its output
                let _written = input.write_all(&line).await;
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Kind of fault: "called wrongly" for a worker that dies when all payments are made, so that nobody waits for
    /// an answer of it any more.
    #[tokio::test]
    async fn a_worker_that_ends_by_itself_ends_the_storm_with_3() {
        let mut command = Command::new("false");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let kept = keep(Arc::default(), command, CancellationToken::new()).await;
        let error = kept.unwrap_err();
        assert!(error.to_string().contains("by itself: exit status: 1"), "{error}");
        assert_eq!(crate::ended::code_of(&error), 3);
    }
}
