use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use idempotency::{Attempt, AttemptNumber, Classify, Disposition, KeyDigest};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::message::{Job, Message, Simulate};

/// The work: sends mails, and remembers what it sent.
#[derive(Clone, Debug)]
pub struct Mailer {
    outgoing: Arc<Mutex<Outgoing>>,
    slow: Duration,
}

#[derive(Debug, Default)]
struct Outgoing {
    sent: Vec<Sent>,
    runs: Vec<KeyDigest>,
}

/// A mail that really went out: one for each time, never de-duplicated.
#[derive(Clone, Debug)]
pub struct Sent {
    /// What it was sent for.
    pub key: KeyDigest,
    /// The attempt that sent it.
    pub attempt: AttemptNumber,
    /// What was sent.
    pub job: Job,
}

/// The answer to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// Which mail it was, from 1.
    pub mail: usize,
}

/// Why no mail was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum MailError {
    /// For good.
    #[error("no such address")]
    NoSuchAddress,
    /// For now.
    #[error("the mail server is down")]
    Unavailable,
}

/// A refusal is an answer and is kept; where nothing was sent the next delivery may try.
impl Classify for MailError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::NoSuchAddress => Disposition::Store,
            Self::Unavailable => Disposition::Failed,
        }
    }
}

impl Mailer {
    /// A mailer whose slow mails take this long.
    pub fn new(slow: Duration) -> Self {
        Self { outgoing: Arc::default(), slow }
    }

    /// All that was sent.
    pub fn sent(&self) -> Vec<Sent> {
        self.outgoing().sent.clone()
    }

    /// How often the work ran for a key.
    pub fn runs(&self, key: KeyDigest) -> usize {
        self.outgoing().runs.iter().filter(|run| **run == key).count()
    }

    /// Runs once for each attempt. `crash` is told where the process is to die.
    pub(crate) async fn send(
        &self,
        message: &Message,
        attempt: &Attempt,
        crash: &Notify,
    ) -> Result<Mail, MailError> {
        self.outgoing().runs.push(attempt.key_digest());
        let is_first = attempt.number() == AttemptNumber::FIRST;
        match message.simulate {
            Some(Simulate::Refused) => return Err(MailError::NoSuchAddress),
            Some(Simulate::UnavailableOnce) if is_first => return Err(MailError::Unavailable),
            Some(Simulate::Slow) => tokio::time::sleep(self.slow).await,
            #[expect(clippy::panic, reason = "the fault that the sample asks for")]
            Some(Simulate::Panic) => panic!("simulated"),
            _ => {}
        }
        let mail = self.hand_over(&message.job, attempt);
        if message.simulate == Some(Simulate::CrashAfterSending) && is_first {
            crash.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(Mail { mail })
    }

    /// Sends the mail. An attempt that is not the first looks first whether an earlier one has.
    fn hand_over(&self, job: &Job, attempt: &Attempt) -> usize {
        let key = attempt.key_digest();
        let mut outgoing = self.outgoing();
        if attempt.number() > AttemptNumber::FIRST
            && let Some(found) = outgoing.sent.iter().position(|sent| sent.key == key)
        {
            return found + 1;
        }
        outgoing.sent.push(Sent { key, attempt: attempt.number(), job: job.clone() });
        outgoing.sent.len()
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
