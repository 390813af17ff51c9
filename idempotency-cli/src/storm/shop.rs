//! The service that charges customers, as a user of this library would write it.

use std::{io, time::Duration};

use idempotency::{
    Attempt, Classify, Connected, Disposition, Event, Fingerprint, Idempotency, IdempotencyKey,
    Lease, Observer, Outcome, Retention, Scope,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    ledger::{Entry, Ledger, What},
    schedule::Fault,
};

/// A request to charge a customer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) payment: u64,
    pub(super) merchant: usize,
    /// Cents.
    pub(super) amount: u64,
    /// Whether the request carries its key.
    pub(super) has_key: bool,
    /// How long the handler works.
    pub(super) work_millis: u64,
    /// What happens to the handler.
    pub(super) fault: Option<Fault>,
}

/// What the service answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Charged now.
    Charged,
    /// Charged before; the stored answer.
    Replayed,
    /// Another attempt is running: 409.
    InProgress,
    /// The answer of another payment, or this key was said to stand for one.
    Wrong,
    /// Not now: 503.
    Unavailable,
    /// The service is at fault: 500.
    Broken,
}

/// What the customer gets, and what is stored.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Receipt {
    payment: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum ChargeError {
    /// The key was lost before the charge: another attempt has it.
    KeyLost,
    /// The ledger cannot be written.
    Ledger,
}

impl Classify for ChargeError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::KeyLost => Disposition::Failed,
            Self::Ledger => Disposition::Unknown,
        }
    }
}

impl From<io::Error> for ChargeError {
    fn from(_: io::Error) -> Self {
        Self::Ledger
    }
}

/// The service.
#[derive(Debug)]
pub(super) struct Shop {
    idempotency: Idempotency,
    ledger: Ledger,
}

/// Longer than any storm.
const RETENTION: Duration = Duration::from_hours(1);

impl Shop {
    pub(super) fn new(
        store: impl Into<Connected>,
        ledger: Ledger,
        lease: Duration,
    ) -> anyhow::Result<Self> {
        let idempotency = Idempotency::builder(store)
            .lease(Lease::new(lease)?)
            .retention(Retention::new(RETENTION)?)
            .observer(Silent)
            .build()?;
        Ok(Self { idempotency, ledger })
    }

    pub(super) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Handles a request; `crash` is cancelled where the process ends, and then nothing follows.
    pub(super) async fn handle(&self, order: Order, crash: &CancellationToken) -> Answer {
        if !order.has_key {
            return match self.charge(order, None, crash).await {
                Ok(_) => Answer::Charged,
                Err(_) => Answer::Broken,
            };
        }
        let Ok(scope) = Scope::new(format!("merchant_{}", order.merchant)) else {
            return Answer::Broken;
        };
        let key = IdempotencyKey::derived(&scope, ["payment", &order.payment.to_string()]);
        let Ok(fingerprint) = Fingerprint::of_json(&(order.payment, order.amount)) else {
            return Answer::Broken;
        };
        let work = async |attempt: Attempt| self.charge(order, Some(attempt), crash).await;
        match self.idempotency.run(&key, fingerprint, work).await {
            Ok(Outcome::Executed(Ok(_))) => Answer::Charged,
            Ok(Outcome::Replayed(Ok(receipt))) if receipt.payment == order.payment => {
                Answer::Replayed
            }
            Ok(Outcome::Replayed(Ok(_)) | Outcome::Mismatch(_)) => Answer::Wrong,
            Ok(Outcome::InProgress(_)) => Answer::InProgress,
            Ok(Outcome::Executed(Err(ChargeError::KeyLost))) | Err(_) => Answer::Unavailable,
            Ok(_) => Answer::Broken,
        }
    }

    /// The work. A later attempt asks the provider first: an earlier one may have charged.
    async fn charge(
        &self,
        order: Order,
        attempt: Option<Attempt>,
        crash: &CancellationToken,
    ) -> Result<Receipt, ChargeError> {
        let payment = order.payment;
        let told = attempt.as_ref().map(|attempt| attempt.number().get());
        let write = |what| self.ledger.write(Entry { payment, told, what });
        write(What::Began)?;
        if told.is_some_and(|number| number > 1) && self.ledger.has_charge(payment)? {
            write(What::Found)?;
            return Ok(Receipt { payment });
        }
        let half = Duration::from_millis(order.work_millis) / 2;
        tokio::time::sleep(half).await;
        if order.fault == Some(Fault::CrashBefore) {
            end(crash).await;
        }
        if attempt.is_some_and(|attempt| attempt.is_lost()) {
            return Err(ChargeError::KeyLost);
        }
        write(What::Charged)?;
        if order.fault == Some(Fault::CrashAfter) {
            end(crash).await;
        }
        tokio::time::sleep(half).await;
        Ok(Receipt { payment })
    }
}

/// The process ends here.
async fn end(crash: &CancellationToken) {
    crash.cancel();
    std::future::pending::<()>().await;
}

/// What a storm does to a store is no news.
#[derive(Debug)]
struct Silent;

impl Observer for Silent {
    fn observe(&self, _: &Event) {}
}
