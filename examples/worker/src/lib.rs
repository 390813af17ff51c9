#![doc = include_str!("../README.md")]

mod consumer;
mod mailer;
mod message;
mod queue;
mod report;

pub use consumer::{Consumer, Ended};
pub use mailer::{Mail, MailError, Mailer, Sent};
pub use message::{Job, Message, Simulate};
pub use queue::{Acknowledged, DeadLetter, Delivery, Queue, QueueSettings, Receipt};
pub use report::Report;
