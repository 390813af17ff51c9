use std::{sync::Arc, time::Duration};

use idempotency::{
    Classify, Disposition, Error, Fingerprint, Idempotency, IdempotencyKey, KeyDigest, Outcome,
    Scope,
};
use tokio::sync::Notify;

use crate::{
    mailer::{Mail, MailError, Mailer},
    message::Message,
    queue::{Acknowledged, Delivery, Queue},
};

/// Takes messages from a queue and does each job once.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// What runs each job once.
    pub idempotency: Idempotency,
    /// Where the messages come from.
    pub queue: Arc<Queue>,
    /// Whose keys they are: the queue, so that two queues never share a key.
    pub scope: Scope,
    /// The work.
    pub mailer: Mailer,
}

/// How one delivery ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The message's place in the queue, from 1.
    pub number: usize,
    /// What stands for its key; none where it has none.
    pub key: Option<KeyDigest>,
    /// What was found.
    pub how: String,
    /// What the queue was told; none: nothing, so the message comes again.
    pub acknowledged: Option<Acknowledged>,
}

/// What the queue is to be told.
enum Verdict {
    Acknowledge(String),
    /// Nothing: the message comes again when it is no longer hidden.
    Again(String),
    Postpone(String, Duration),
    Bury(String),
}

type Result<T> = std::result::Result<T, Verdict>;

impl Consumer {
    /// Handles messages until the queue is empty.
    pub async fn run(&self) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some(delivery) = self.queue.receive().await {
            ended.push(self.handle(delivery).await);
        }
        ended
    }

    /// Handles one delivery, and tells the queue what to do with the message.
    async fn handle(&self, delivery: Delivery) -> Ended {
        let Delivery { number, body, receipt } = delivery;
        let (key, verdict) = match self.read(&body) {
            Ok((key, message)) => (Some(key.digest()), self.execute(key, message).await),
            Err(verdict) => (None, verdict),
        };
        let (how, acknowledged) = match verdict {
            Verdict::Acknowledge(how) => (how, Some(self.queue.acknowledge(receipt))),
            Verdict::Again(how) => (how, None),
            Verdict::Postpone(how, wait) => {
                self.queue.postpone(receipt, wait);
                (how, None)
            }
            Verdict::Bury(how) => {
                self.queue.bury(receipt, how.as_str());
                (how, None)
            }
        };
        Ended { number, key, how, acknowledged }
    }

    fn read(&self, body: &str) -> Result<(IdempotencyKey, Message)> {
        let message = Message::parse(body)
            .map_err(|error| Verdict::Bury(format!("not a message: {error}")))?;
        let key = IdempotencyKey::new(self.scope.clone(), &message.id)
            .map_err(|error| Verdict::Bury(error.to_string()))?;
        Ok((key, message))
    }

    async fn execute(&self, key: IdempotencyKey, message: Message) -> Verdict {
        let fingerprint = match Fingerprint::of_json(&message.job) {
            Ok(fingerprint) => fingerprint,
            Err(error) => return Verdict::Bury(error.to_string()),
        };
        // a task of its own: a panic, or the crash that a message asks for, ends it and not the consumer
        let crash = Arc::new(Notify::new());
        let (consumer, told) = (self.clone(), Arc::clone(&crash));
        let mut task = tokio::spawn(async move {
            let mailer = &consumer.mailer;
            let work = async |attempt| mailer.send(&message, &attempt, &told).await;
            consumer.idempotency.run(&key, fingerprint, work).await
        });
        let ended = tokio::select! {
            ended = &mut task => ended.ok(),
            () = crash.notified() => {
                task.abort();
                None
            }
        };
        // a dead process tells the queue nothing
        ended.map_or_else(|| Verdict::Again("crashed".into()), |ended| Verdict::of(&ended))
    }
}

impl Verdict {
    fn of(ended: &std::result::Result<Outcome<Mail, MailError>, Error>) -> Self {
        let outcome = match ended {
            Ok(outcome) => outcome,
            Err(error) => return Self::Again(format!("the store: {error}")),
        };
        match outcome {
            Outcome::Executed(Ok(Mail { mail })) => Self::Acknowledge(format!("sent, mail {mail}")),
            // done before: not to be ignored, but to be acknowledged again (H-68)
            Outcome::Replayed(Ok(Mail { mail })) => {
                Self::Acknowledge(format!("sent before, mail {mail}"))
            }
            Outcome::Executed(Err(error)) if error.disposition() != Disposition::Store => {
                Self::Again(error.to_string())
            }
            Outcome::Executed(Err(error)) | Outcome::Replayed(Err(error)) => {
                Self::Acknowledge(error.to_string())
            }
            Outcome::NotKept(_) => Self::Acknowledge("done, the answer was not kept".into()),
            Outcome::InProgress(running) => {
                Self::Postpone("in progress elsewhere".into(), running.retry_after())
            }
            Outcome::Mismatch(_) => Self::Bury("its id stands for another job".into()),
            Outcome::Unknown(_) => Self::Bury("nobody knows whether it was sent".into()),
        }
    }
}
