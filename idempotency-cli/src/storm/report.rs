//! What a storm came to, for people and for programs.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use serde::Serialize;

use super::{Plan, judge::Findings};

/// Both worlds, beside each other. Holds no time and no address: the same storm gives the same text.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    store: String,
    seed: u64,
    payments: u64,
    merchants: usize,
    timeout_rate: f64,
    is_green: bool,
    pub(super) without_keys: Findings,
    pub(super) with_keys: Findings,
}

impl Report {
    pub(super) fn new(
        plan: &Plan,
        store: String,
        without_keys: Findings,
        with_keys: Findings,
    ) -> Self {
        let is_green = with_keys.undisclosed.is_empty()
            && with_keys.never_charged.is_empty()
            && with_keys.wrong_answers == 0
            // a storm in which nobody could pay proves nothing
            && with_keys.paid > 0;
        Self {
            store,
            seed: plan.schedule.seed(),
            payments: plan.payments,
            merchants: plan.merchants,
            timeout_rate: plan.schedule.timeout_rate(),
            is_green,
            without_keys,
            with_keys,
        }
    }

    /// Whether no payment ran twice without being told, none was lost or got another's answer, and some
    /// were made.
    pub(super) const fn is_green(&self) -> bool {
        self.is_green
    }

    fn rows(&self) -> Vec<Row> {
        let (without, with) = (&self.without_keys, &self.with_keys);
        let row = |name, of: fn(&Findings) -> u64| Row {
            name,
            without: Some(of(without).to_string()),
            with: of(with).to_string(),
        };
        let ours = |name, of: fn(&Findings) -> u64| Row { without: None, ..row(name, of) };
        let money = |findings: &Findings| {
            let cents = findings.cents_charged_twice;
            format!("{}.{:02}", cents / 100, cents % 100)
        };
        let mut rows = vec![
            row("payments made", |f| f.paid),
            row("charged twice", |f| f.charged_twice),
            Row { name: "money charged twice", without: Some(money(without)), with: money(with) },
            row("outcome unknown to the merchant", |f| f.outcome_unknown),
            row("tries", |f| f.tries),
            row("  without an answer in time", |f| f.timed_out),
            row("  cut off by a crash", |f| f.crashes),
            ours("answered from the store", |f| f.replays),
            ours("told that another try is running", |f| f.conflicts),
            ours("taken over, and told so", |f| f.take_overs),
            ours("  and found the charge made", |f| f.found_made),
        ];
        if with.wrong_answers > 0 {
            rows.push(ours("answered with another payment", |f| f.wrong_answers));
        }
        if with.refused > 0 {
            rows.push(ours("refused, the store failed", |f| f.refused));
        }
        if with.killed > 0 {
            rows.push(row("worker processes killed", |f| f.killed));
        }
        rows
    }

    fn verdict(&self) -> String {
        let Findings { undisclosed, never_charged, wrong_answers, paid, .. } = &self.with_keys;
        let first = |payments: &std::collections::BTreeSet<u64>| {
            let first = payments.iter().take(5).map(ToString::to_string);
            first.collect::<Vec<_>>().join(", ")
        };
        if !undisclosed.is_empty() {
            return format!(
                "FAILED: {} payments ran twice without being told: numbers {}, …",
                undisclosed.len(),
                first(undisclosed)
            );
        }
        if !never_charged.is_empty() {
            return format!(
                "FAILED: {} payments count as made and were never charged: numbers {}, …",
                never_charged.len(),
                first(never_charged)
            );
        }
        if *wrong_answers > 0 {
            return format!("FAILED: {wrong_answers} requests got the answer of another payment");
        }
        if *paid == 0 {
            return "FAILED: no payment was made, which proves nothing".to_owned();
        }
        "No payment ran twice without being told that it was not the first.".to_owned()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, seed, payments, merchants, timeout_rate, .. } = self;
        writeln!(f, "{payments} payments of {merchants} merchants, on {store}.")?;
        let percent = timeout_rate * 100.0;
        writeln!(f, "{percent} % of all tries meet a fault. Seed {seed}.\n")?;
        let mut table = Table::new();
        table.load_preset(NOTHING).set_header(["", "without keys", "with keys"]);
        for Row { name, without, with } in self.rows() {
            let without = without.unwrap_or_else(|| "-".to_owned());
            table.add_row([name.to_owned(), without, with]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{}\n", table.trim_fmt())?;
        f.write_str(&self.verdict())
    }
}

/// One figure of both worlds; none where there is no such thing without keys.
struct Row {
    name: &'static str,
    without: Option<String>,
    with: String,
}
