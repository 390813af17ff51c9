use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use idempotency::{
    Attempt, AttemptNumber, Classify, Disposition, Fingerprint, Idempotency, IdempotencyKey,
    KeyDigest, Outcome,
};
use serde::{Deserialize, Serialize};

use crate::{
    operation::{Line, Order, Simulate},
    report::Row,
};

/// Places orders, each intent once.
#[derive(Clone, Debug)]
pub(crate) struct Shop {
    idempotency: Idempotency,
    ledger: Arc<Mutex<Vec<Effect>>>,
}

/// Something that really happened: one line for each time, never de-duplicated.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) key: KeyDigest,
    pub(crate) item: String,
    pub(crate) amount: u64,
    pub(crate) attempt: AttemptNumber,
}

/// The answer to an order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Placed {
    /// The line of the ledger.
    pub(crate) effect: usize,
    /// The attempt that gave this answer.
    pub(crate) attempt: u32,
}

#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum OrderError {
    #[error("declined")]
    Declined,
    #[error("unavailable, try again")]
    Unavailable,
}

/// A refusal is an answer and is kept; where nothing happened the next try may run.
impl Classify for OrderError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Declined => Disposition::Store,
            Self::Unavailable => Disposition::Failed,
        }
    }
}

impl Shop {
    pub(crate) fn new(idempotency: Idempotency) -> Self {
        Self { idempotency, ledger: Arc::default() }
    }

    pub(crate) fn ledger(&self) -> Vec<Effect> {
        self.entries().clone()
    }

    /// Serves one line of input.
    pub(crate) async fn serve(&self, line: Result<Line, String>) -> Row {
        let line = match line {
            Ok(line) => line,
            Err(problem) => return Row::refused(None, problem),
        };
        tokio::time::sleep(Duration::from_millis(line.wait_ms)).await;
        let key = match IdempotencyKey::new(line.scope.as_str(), &line.key) {
            Ok(key) => key,
            Err(error) => return Row::refused(None, error.to_string()),
        };
        // a task of its own: a panic or a cut ends it, and not the shop
        let shop = self.clone();
        let (digest, order) = (key.digest(), line.body);
        let vanishes = order.simulate == Some(Simulate::VanishAfterEffect);
        let execution = tokio::spawn(async move { shop.execute(&key, &order).await });
        if vanishes {
            let cut = execution.abort_handle();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                cut.abort();
            });
        }
        match execution.await {
            Ok(Ok(outcome)) => Row::outcome(digest, &outcome),
            Ok(Err(problem)) => Row::refused(Some(digest), problem),
            Err(end) if end.is_panic() => Row::crashed(digest, "panicked"),
            Err(_) => Row::crashed(digest, "cut off"),
        }
    }

    async fn execute(
        &self,
        key: &IdempotencyKey,
        order: &Order,
    ) -> Result<Outcome<Placed, OrderError>, String> {
        let fingerprint = Fingerprint::of_json(order).map_err(|error| error.to_string())?;
        self.idempotency
            .run(key, fingerprint, async |attempt| self.place(order, &attempt).await)
            .await
            .map_err(|error| error.to_string())
    }

    /// The work: runs once for each attempt.
    async fn place(&self, order: &Order, attempt: &Attempt) -> Result<Placed, OrderError> {
        let first = attempt.number() == AttemptNumber::FIRST;
        match order.simulate {
            Some(Simulate::Slow) => tokio::time::sleep(Duration::from_millis(300)).await,
            Some(Simulate::Declined) => return Err(OrderError::Declined),
            Some(Simulate::UnavailableOnce) if first => return Err(OrderError::Unavailable),
            _ => {}
        }
        let effect = self.enter(order, attempt);
        if first {
            #[expect(clippy::panic, reason = "the crash that the sample asks for")]
            match order.simulate {
                Some(Simulate::PanicAfterEffect) => panic!("simulated"),
                Some(Simulate::VanishAfterEffect) => std::future::pending().await,
                _ => {}
            }
        }
        Ok(Placed { effect, attempt: attempt.number().get() })
    }

    /// Enters the order into the ledger. An attempt that is not the first looks there before.
    fn enter(&self, order: &Order, attempt: &Attempt) -> usize {
        let key = attempt.key_digest();
        let mut ledger = self.entries();
        if attempt.number() > AttemptNumber::FIRST
            && let Some(found) = ledger.iter().position(|effect| effect.key == key)
        {
            return found + 1;
        }
        let Order { item, amount, .. } = order.clone();
        ledger.push(Effect { key, item, amount, attempt: attempt.number() });
        ledger.len()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Effect>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
