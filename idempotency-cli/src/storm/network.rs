//! The network between merchants and the service.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    fleet::Fleet,
    ledger::Ledger,
    pace::Pace,
    schedule::Fault,
    shop::{Answer, Order, Shop},
};
use crate::ended::Refused;

/// The service, as it is reached.
#[derive(Debug)]
pub(super) enum Service {
    /// In this process: a crash drops what handles the request.
    Here(Shop),
    /// In worker processes: a crash is a SIGKILL.
    Fleet(Fleet),
}

/// The connection ended before there was an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Service {
    pub(super) fn ledger(&self) -> &Ledger {
        match self {
            Self::Here(shop) => shop.ledger(),
            Self::Fleet(fleet) => fleet.ledger(),
        }
    }

    /// Ends when it cannot go on.
    async fn failure(&self) -> anyhow::Error {
        match self {
            Self::Here(_) => std::future::pending().await,
            Self::Fleet(fleet) => fleet.failure().await,
        }
    }

    async fn call(&self, order: Order, worker: usize) -> Result<Answer, Gone> {
        let shop = match self {
            Self::Fleet(fleet) => return fleet.call(order, worker).await,
            Self::Here(shop) => shop,
        };
        let crash = CancellationToken::new();
        tokio::select! {
            biased;
            () = crash.cancelled() => Err(Gone),
            answer = shop.handle(order, &crash) => Ok(answer),
        }
    }
}

/// What the service was seen to answer, heard by the client or not.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) replayed: AtomicU64,
    pub(super) in_progress: AtomicU64,
    pub(super) wrong: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) crashed: AtomicU64,
    refused_in_a_row: AtomicU64,
    /// Cancelled when the store does not come back.
    store_failed: CancellationToken,
}

/// So many refusals without another answer between them, and the storm ends: each further payment would
/// take as long as its merchant is patient.
const MOST_REFUSALS_IN_A_ROW: u64 = 50;

impl Answers {
    fn count(&self, answer: Result<Answer, Gone>) {
        let counter = match answer {
            Ok(Answer::Unavailable | Answer::Broken) => {
                let in_a_row = self.refused_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
                if in_a_row >= MOST_REFUSALS_IN_A_ROW {
                    self.store_failed.cancel();
                }
                self.refused.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Ok(Answer::Charged) => None,
            Ok(Answer::Replayed) => Some(&self.replayed),
            Ok(Answer::InProgress) => Some(&self.in_progress),
            Ok(Answer::Wrong) => Some(&self.wrong),
            Err(Gone) => {
                self.crashed.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        self.refused_in_a_row.store(0, Ordering::Relaxed);
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends when the store does not come back.
    async fn failure(&self) -> anyhow::Error {
        self.store_failed.cancelled().await;
        let refused = MOST_REFUSALS_IN_A_ROW;
        let detail = format!("the storm ended: the store failed, {refused} requests in a row");
        Refused::StoreFailed(detail).into()
    }
}

/// Why a client has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    TimedOut,
    ConnectionBroke,
}

/// Carries requests to the service, or loses them.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) service: Arc<Service>,
    pub(super) answers: Arc<Answers>,
    /// Requests go on when their client has left.
    pub(super) under_way: TaskTracker,
    pub(super) pace: Pace,
}

impl Network {
    /// Ends when the storm cannot go on.
    pub(super) async fn failure(&self) -> anyhow::Error {
        tokio::select! {
            biased;
            failure = self.service.failure() => failure,
            failure = self.answers.failure() => failure,
        }
    }

    /// One try.
    pub(super) async fn send(&self, order: Order, worker: usize) -> Result<Answer, NoAnswer> {
        match order.fault {
            Some(Fault::RequestLost) => return self.silence().await,
            Some(Fault::RequestLate) => {
                let (network, late) = (self.clone(), self.pace.late);
                self.under_way.spawn(async move {
                    tokio::time::sleep(late).await;
                    network.deliver(order, worker).await
                });
                return self.silence().await;
            }
            _ => {}
        }
        let network = self.clone();
        let delivered = self.under_way.spawn(async move { network.deliver(order, worker).await });
        if order.fault == Some(Fault::ReplyLost) {
            return self.silence().await;
        }
        match tokio::time::timeout(self.pace.client_timeout, delivered).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(Gone)) | Err(_)) => Err(NoAnswer::ConnectionBroke),
            Err(_) => Err(NoAnswer::TimedOut),
        }
    }

    async fn deliver(&self, order: Order, worker: usize) -> Result<Answer, Gone> {
        let answer = self.service.call(order, worker).await;
        self.answers.count(answer);
        answer
    }

    async fn silence(&self) -> Result<Answer, NoAnswer> {
        tokio::time::sleep(self.pace.client_timeout).await;
        Err(NoAnswer::TimedOut)
    }
}
