//! `idempotency doctor`

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets::NOTHING};
use idempotency::{Connected, Finding, Severity};
use serde::Serialize;

use crate::{
    args::{Format, StoreArg},
    capability,
    console::Console,
    ended::Ended,
};

#[derive(Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) store: StoreArg,

    /// Ends with 1 for a warning as well, not only for a hazard.
    #[arg(long)]
    pub(crate) strict: bool,

    /// How the findings are written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Serialize)]
struct FindingView<'a> {
    severity: &'static str,
    subject: &'a str,
    advice: &'a str,
}

impl<'a> From<&'a Finding> for FindingView<'a> {
    fn from(finding: &'a Finding) -> Self {
        let Finding { severity, subject, advice } = finding;
        Self { severity: word(*severity), subject, advice }
    }
}

pub(crate) async fn run(
    options: &Doctor,
    store: &Connected,
    console: &mut Console<'_>,
) -> anyhow::Result<Ended> {
    let doctor = store.doctor().ok_or_else(|| capability::missing(store, "be examined"))?;
    let findings = doctor.examine().await?;
    let views = findings.iter().map(FindingView::from);
    if options.format == Format::Json {
        let views: Vec<_> = views.collect();
        console.say(serde_json::to_string(&views)?)?;
    } else {
        let mut table = Table::new();
        table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.add_rows(views.map(|view| [view.severity, view.subject, view.advice]));
        console.say(table.trim_fmt())?;
    }
    let worst = findings.iter().map(|finding| finding.severity).max();
    let limit = if options.strict { Severity::Warning } else { Severity::Hazard };
    Ok(if worst.is_some_and(|worst| worst >= limit) { Ended::No } else { Ended::Done })
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Fine => "fine",
        Severity::Warning => "warning",
        Severity::Hazard => "HAZARD",
    }
}
