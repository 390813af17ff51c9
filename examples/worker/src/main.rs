//! The program: puts messages into a queue and works until it is empty.

use std::{
    fs,
    io::{self, Read},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use idempotency::{Idempotency, Lease, Scope};
use worker::{Consumer, Mailer, Message, Queue, QueueSettings, Report, Simulate};

/// Does each job of a queue once, whatever the queue delivers again.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Messages, one JSON object a line; `-` for standard input [default: the sample]
    file: Option<String>,

    /// Where the records are kept
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,

    /// Whose keys they are: give the same name to continue with them [default: a new one]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// How long a claim holds without renewal
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    lease: Duration,

    /// How long a message that was received is hidden
    #[arg(long, value_name = "TIME", default_value = "400ms", value_parser = humantime::parse_duration)]
    visibility: Duration,

    /// How often a message is delivered before it goes to the dead letters
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    max_deliveries: u32,

    /// How many messages are handled at once
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    consumers: usize,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let lease = Lease::new(arguments.lease).context("--lease")?;
    ensure!(arguments.consumers > 0, "--consumers must be at least 1");
    let store = idempotency::connect(&arguments.store).await.context("--store")?;
    let name = arguments.queue.unwrap_or_else(|| format!("queue-{}", uuid::Uuid::now_v7()));
    let consumer = Consumer {
        idempotency: Idempotency::builder(store).lease(lease).build().context("--lease")?,
        queue: Arc::new(Queue::new(QueueSettings {
            visibility: arguments.visibility,
            max_deliveries: arguments.max_deliveries,
        })),
        scope: Scope::new(name).context("--queue")?,
        mailer: Mailer::new(arguments.visibility * 3),
    };
    fill(&consumer.queue, &input(arguments.file.as_deref())?)?;
    let tasks = (0..arguments.consumers).map(|_| {
        let consumer = consumer.clone();
        tokio::spawn(async move { consumer.run().await })
    });
    let mut ended = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        ended.extend(task.await?);
    }
    let report = Report::new(&consumer, ended);
    print!("{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn input(file: Option<&str>) -> Result<String> {
    match file {
        None => Ok(include_str!("../sample.jsonl").to_owned()),
        Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("cannot read the messages")?;
            Ok(text)
        }
        Some(path) => {
            fs::read_to_string(path).with_context(|| format!("cannot read the messages in {path}"))
        }
    }
}

/// Puts each line into the queue as it is: what is wrong with it is the consumer's to find out.
fn fill(queue: &Queue, text: &str) -> Result<()> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let sent = lines.map(|line| {
        let simulate = Message::parse(line).ok().and_then(|message| message.simulate);
        queue.send(line, if simulate == Some(Simulate::AcknowledgementsLost) { 2 } else { 0 })
    });
    ensure!(sent.count() > 0, "there are no messages in the input");
    Ok(())
}
