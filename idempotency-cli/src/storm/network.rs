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

    /// Ends when the service cannot go on.
    pub(super) async fn failure(&self) -> anyhow::Error {
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
    pub(super) crashed: AtomicU64,
}

impl Answers {
    fn count(&self, answer: Result<Answer, Gone>) {
        let counter = match answer {
            // what is refused is counted where it is heard
            Ok(Answer::Charged | Answer::Unavailable | Answer::Broken) => return,
            Ok(Answer::Replayed) => &self.replayed,
            Ok(Answer::InProgress) => &self.in_progress,
            Err(Gone) => &self.crashed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
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
