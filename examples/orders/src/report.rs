use std::{
    collections::HashSet,
    fmt::{self, Display},
};

use anyhow::Result;
use comfy_table::{Table, presets::NOTHING};
use idempotency::{KeyDigest, Outcome};
use tokio::task::JoinHandle;

use crate::shop::{Effect, OrderError, Placed};

/// What became of all lines, and what really happened.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<(usize, Row)>,
    ledger: Vec<Effect>,
}

/// What became of one line. The key is shown as its digest.
#[derive(Debug)]
pub(crate) struct Row {
    key: Option<KeyDigest>,
    outcome: &'static str,
    attempt: Option<u32>,
    answer: String,
}

impl Row {
    pub(crate) fn refused(key: Option<KeyDigest>, problem: String) -> Self {
        Self { key, outcome: "refused", attempt: None, answer: problem }
    }

    pub(crate) fn crashed(key: KeyDigest, how: &str) -> Self {
        Self { key: Some(key), outcome: "crashed", attempt: None, answer: how.to_owned() }
    }

    pub(crate) fn outcome(key: KeyDigest, outcome: &Outcome<Placed, OrderError>) -> Self {
        let (name, attempt, answer) = match outcome {
            Outcome::Executed(Ok(placed)) => ("executed", Some(placed.attempt), answer(placed)),
            Outcome::Replayed(Ok(placed)) => ("replayed", Some(placed.attempt), answer(placed)),
            Outcome::Executed(Err(error)) => ("executed", None, error.to_string()),
            Outcome::Replayed(Err(error)) => ("replayed", None, error.to_string()),
            Outcome::InProgress(running) => {
                let again = format!("try again in {:?}", running.retry_after());
                ("in progress", Some(running.attempt.get()), again)
            }
            Outcome::Mismatch(_) => ("mismatch", None, "the key stands for another order".into()),
            Outcome::NotKept(done) => {
                ("not kept", Some(done.attempt.get()), "done, the answer was not kept".into())
            }
            Outcome::Unknown(abandoned) => {
                ("unknown", Some(abandoned.attempt.get()), "nobody knows what happened".into())
            }
        };
        Self { key: Some(key), outcome: name, attempt, answer }
    }
}

fn answer(placed: &Placed) -> String {
    format!("line {} of the ledger", placed.effect)
}

impl Report {
    /// Waits for the lines that are running.
    pub(crate) async fn collect(
        &mut self,
        running: &mut Vec<(usize, JoinHandle<Row>)>,
    ) -> Result<()> {
        for (line, task) in running.drain(..) {
            self.rows.push((line, task.await?));
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, ledger: Vec<Effect>) {
        self.ledger = ledger;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether all lines could be read, and nothing happened twice.
    pub(crate) fn is_clean(&self) -> bool {
        self.intents() == self.ledger.len()
            && !self.rows.iter().any(|(_, row)| row.outcome == "refused")
    }

    /// How many intents are in the ledger.
    fn intents(&self) -> usize {
        self.ledger.iter().map(|effect| effect.key).collect::<HashSet<_>>().len()
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = table(&["line", "key", "outcome", "attempt", "answer"]);
        for (line, row) in &self.rows {
            lines.add_row([
                line.to_string(),
                shown(row.key),
                row.outcome.to_owned(),
                shown(row.attempt),
                row.answer.clone(),
            ]);
        }
        let mut ledger = table(&["effect", "key", "item", "amount", "attempt"]);
        for (index, effect) in self.ledger.iter().enumerate() {
            ledger.add_row([
                (index + 1).to_string(),
                effect.key.to_string(),
                effect.item.clone(),
                effect.amount.to_string(),
                effect.attempt.to_string(),
            ]);
        }
        writeln!(f, "{lines}\n\nThe ledger, one line for each effect that really happened:\n")?;
        writeln!(f, "{ledger}\n")?;
        writeln!(
            f,
            "{} lines, {} intents with an effect, {} effects",
            self.rows.len(),
            self.intents(),
            self.ledger.len()
        )
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header);
    table
}

fn shown(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
