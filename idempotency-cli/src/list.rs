//! `idempotency list`

use std::time::Duration;

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets::NOTHING};
use idempotency::{Connected, ListPage, ListQuery, ListState, ListedRecord, Scope, StoreAdmin};
use serde::Serialize;

use crate::{
    args::{Format, StoreArg, duration},
    capability,
    console::{self, Console},
    ended::Ended,
    lookup,
    record::{RecordView, Shown},
};

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) store: StoreArg,

    /// Only records in this state.
    #[arg(long, value_enum)]
    pub(crate) state: Option<WantedState>,

    /// Only records of this scope.
    #[arg(long, value_name = "NAME")]
    pub(crate) scope: Option<String>,

    /// Only records of the global scope.
    #[arg(long, conflicts_with = "scope")]
    pub(crate) global_scope: bool,

    /// Only records whose first attempt is at least this old: `15m`, `2h 30m`, `7days`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,

    /// Ends a page when it holds so many records; it may hold some more.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,

    /// Goes on where the page before ended, with the same other arguments.
    #[arg(long, value_name = "PAGE")]
    pub(crate) page: Option<String>,

    /// All pages, one after the other.
    #[arg(long)]
    pub(crate) all: bool,

    /// Shows scopes and keys in clear, beside the digests.
    #[arg(long)]
    pub(crate) keys: bool,

    /// How the records are written; JSON is one page a line.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum WantedState {
    /// Held, with a live lease.
    InProgress,
    /// Held with a lease that is over, or released as unknown: nobody knows what happened.
    Abandoned,
    /// Released as failed: the next request executes.
    Failed,
    /// Done, with a stored answer.
    Completed,
}

impl From<WantedState> for ListState {
    fn from(wanted: WantedState) -> Self {
        match wanted {
            WantedState::InProgress => Self::InProgress,
            WantedState::Abandoned => Self::Abandoned,
            WantedState::Failed => Self::Failed,
            WantedState::Completed => Self::Completed,
        }
    }
}

#[derive(Serialize)]
struct PageView {
    records: Vec<RecordView>,
    next: Option<String>,
}

pub(crate) async fn run(
    options: &List,
    store: &Connected,
    console: &mut Console<'_>,
) -> anyhow::Result<Ended> {
    let admin = store.admin().ok_or_else(|| capability::missing(store, "list its records"))?;
    let mut query = options.query()?;
    let mut is_empty = true;
    loop {
        let (records, next) = gather(&*admin, &mut query).await?;
        is_empty &= records.is_empty();
        if !records.is_empty() || options.format == Format::Json {
            options.show(&records, next.as_deref(), store, console)?;
        }
        match next.filter(|_| options.all) {
            None => break,
            next => query.page = next,
        }
    }
    if is_empty && options.format == Format::Table {
        console::note("no records");
    }
    Ok(Ended::Done)
}

/// Pages of the store until there are enough records: where it looks at much else, its pages hold few.
/// All are asked for with one size, because a page of one size means nothing to a page of another.
async fn gather(
    admin: &dyn StoreAdmin,
    query: &mut ListQuery,
) -> anyhow::Result<(Vec<ListedRecord>, Option<String>)> {
    let mut found = Vec::new();
    loop {
        let ListPage { records, next } = admin.list(query.clone()).await?;
        found.extend(records);
        if next.is_none() || found.len() >= query.limit {
            return Ok((found, next));
        }
        query.page = next;
    }
}

impl List {
    fn query(&self) -> anyhow::Result<ListQuery> {
        let scope = match &self.scope {
            Some(name) => Some(Scope::new(name)?),
            None => self.global_scope.then(Scope::global),
        };
        Ok(ListQuery {
            state: self.state.map(Into::into),
            scope,
            older_than: self.older_than,
            limit: usize::try_from(self.limit)?,
            page: self.page.clone(),
        })
    }

    fn show(
        &self,
        records: &[ListedRecord],
        next: Option<&str>,
        store: &Connected,
        console: &mut Console<'_>,
    ) -> anyhow::Result<()> {
        let now = lookup::now(store);
        let records = records.iter().map(|listed| {
            let shown = match &listed.key {
                Some(key) if self.keys => Shown::Clear(key),
                _ => Shown::Digest(listed.digest),
            };
            RecordView::new(shown, &listed.record, Some(listed.state), now)
        });
        if self.format == Format::Json {
            let page = PageView { records: records.collect(), next: next.map(str::to_owned) };
            writeln!(console.out, "{}", serde_json::to_string(&page)?)?;
            return Ok(());
        }
        let mut table = Table::new();
        table.load_preset(NOTHING).set_header(RecordView::header(self.keys));
        table.add_rows(records.map(|record| record.row()));
        writeln!(console.out, "{}", table.trim_fmt())?;
        if let Some(next) = next.filter(|_| !self.all) {
            // not in the way of what reads the table
            console::note(format_args!("there is more: --page {next}"));
        }
        Ok(())
    }
}
