use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde::Serialize;

use crate::{cli::Format, driver::median};

/// All rows of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// One measurement, and the bar that it has to meet.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    /// Ours, run by run.
    pub(crate) ours: Vec<f64>,
    /// What it is compared with, run by run; empty where it stands alone.
    pub(crate) other: Vec<f64>,
    /// What the bar is about.
    pub(crate) figure: Figure,
    pub(crate) bar: Option<Bar>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Figure {
    /// The median of ours.
    Ours,
    /// The median of ours divided by the one of the other, run by run.
    OursToOther,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn show(&self, format: Format) -> anyhow::Result<String> {
        match format {
            Format::Json => Ok(serde_json::to_string_pretty(self)?),
            Format::Table => Ok(self.table().to_string()),
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(ASCII_MARKDOWN);
        table.set_header(["what", "unit", "ours", "other", "ratio", "bar", "met"]);
        for row in &self.rows {
            let other = row.other_median().map(|other| format!("{other:.0}"));
            let ratio = row.ratio().map(|ratio| format!("{ratio:.2}"));
            let bar = row.bar.map(|bar| match bar {
                Bar::AtMost(bar) => format!("<= {bar}"),
                Bar::AtLeast(bar) => format!(">= {bar}"),
            });
            let met = row.is_met().map(|met| if met { "yes" } else { "NO" });
            let ours = row.ours_median();
            table.add_row([
                row.what.as_str(),
                row.unit,
                &format!("{ours:.*}", usize::from(ours < 100.0) * 2),
                &other.unwrap_or_default(),
                &ratio.unwrap_or_default(),
                &bar.unwrap_or_default(),
                met.unwrap_or_default(),
            ]);
        }
        table
    }
}

impl Row {
    fn ours_median(&self) -> f64 {
        median(self.ours.clone())
    }

    fn other_median(&self) -> Option<f64> {
        (!self.other.is_empty()).then(|| median(self.other.clone()))
    }

    /// The median of the ratios run by run: each pair ran side by side, under the same other load.
    fn ratio(&self) -> Option<f64> {
        let pairs = self.ours.iter().zip(&self.other);
        let ratios: Vec<_> = pairs.map(|(ours, other)| ours / other).collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }

    fn is_met(&self) -> Option<bool> {
        let figure = match self.figure {
            Figure::Ours => Some(self.ours_median()),
            Figure::OursToOther => self.ratio(),
        };
        Some(match self.bar? {
            Bar::AtMost(bar) => figure? <= bar,
            Bar::AtLeast(bar) => figure? >= bar,
        })
    }
}
