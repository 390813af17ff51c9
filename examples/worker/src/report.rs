use std::{
    collections::{BTreeMap, HashSet},
    fmt::{self, Display},
};

use comfy_table::{Table, presets::NOTHING};

use crate::{
    consumer::{Consumer, Ended},
    queue::Acknowledged,
};

/// What became of each message. How many deliveries came too early, and which of two was first, depends on
/// the machine and is left out: the same messages give the same report.
#[derive(Debug)]
pub struct Report {
    rows: BTreeMap<usize, Row>,
    mails: usize,
    jobs: usize,
}

#[derive(Debug, Default)]
struct Row {
    /// Of its key, which other messages may have too.
    runs: usize,
    mails: usize,
    acknowledgements: usize,
    is_gone: bool,
    end: String,
}

impl Report {
    /// Of all that a consumer, or several of one queue, did.
    pub fn new(consumer: &Consumer, ended: Vec<Ended>) -> Self {
        let sent = consumer.mailer.sent();
        let mut rows = BTreeMap::<usize, Row>::new();
        for Ended { number, key, how, acknowledged } in ended {
            let row = rows.entry(number).or_default();
            let arrived = matches!(acknowledged, Some(Acknowledged::Done | Acknowledged::Lost));
            row.acknowledgements += usize::from(arrived);
            row.is_gone |= acknowledged == Some(Acknowledged::Done);
            row.end = how;
            if let Some(key) = key {
                row.runs = consumer.mailer.runs(key);
                row.mails = sent.iter().filter(|mail| mail.key == key).count();
                if let Some(mail) = sent.iter().find(|mail| mail.key == key) {
                    row.end = format!("sent by attempt {}", mail.attempt);
                }
            }
        }
        for dead in consumer.queue.dead_letters() {
            let row = rows.entry(dead.number).or_default();
            row.is_gone = true;
            row.end = format!("dead letter: {}", dead.reason);
        }
        let jobs = sent.iter().map(|mail| mail.key).collect::<HashSet<_>>().len();
        Self { rows, mails: sent.len(), jobs }
    }

    /// Whether no mail went out twice, and no message is left.
    pub fn is_clean(&self) -> bool {
        self.mails == self.jobs && self.rows.values().all(|row| row.is_gone)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(NOTHING);
        table.set_header(["message", "runs", "mails", "acknowledged", "end"]);
        for (number, row) in &self.rows {
            let Row { runs, mails, acknowledgements, end, .. } = row;
            let counts = [number, runs, mails, acknowledgements].map(usize::to_string);
            table.add_row(counts.iter().chain([end]));
        }
        let table = table.to_string();
        for line in table.lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        let messages = self.rows.len();
        writeln!(f, "\n{messages} messages, {} jobs with a mail, {} mails", self.jobs, self.mails)
    }
}
