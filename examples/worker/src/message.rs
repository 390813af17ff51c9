use serde::{Deserialize, Serialize};

/// What stands in the queue, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Made once by the producer, for one intended job: it is the idempotency key. The queue's own number
    /// of a message would not do, because a producer that sends again gets another one.
    pub id: String,
    /// What is to be done: the request that the key stands for.
    pub job: Job,
    /// What is to go wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulate: Option<Simulate>,
}

/// A mail to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The address.
    pub to: String,
    /// The subject.
    pub subject: String,
}

/// What is to go wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Simulate {
    /// The mail goes out, and the queue never hears of it: two acknowledgements are lost.
    AcknowledgementsLost,
    /// The first attempt finds the mail server down.
    UnavailableOnce,
    /// The mail server knows no such address.
    Refused,
    /// The first attempt takes three times as long as the message is hidden.
    Slow,
    /// The process dies after the mail of the first attempt has gone out.
    CrashAfterSending,
    /// Every attempt panics.
    Panic,
}

impl Message {
    /// The message, or what is wrong with the text.
    ///
    /// # Errors
    /// It is not a message.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}
