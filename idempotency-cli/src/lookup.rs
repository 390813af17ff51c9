//! `idempotency lookup`

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use idempotency::{Clock, Connected, Record, State, SystemClock, machine::Now};

use crate::{
    args::{Format, KeyArgs, StoreArg},
    console::{self, Console},
    ended::Ended,
    record::{RecordView, Shown, answer},
};

#[derive(Args)]
pub(crate) struct Lookup {
    #[command(flatten)]
    pub(crate) store: StoreArg,

    #[command(flatten)]
    pub(crate) key: KeyArgs,

    /// Writes the stored answer to this file, `-` for the standard output: JSON of a value, an HTTP
    /// response as a message, other bytes as they are.
    #[arg(long, value_name = "FILE")]
    pub(crate) response: Option<PathBuf>,

    /// Writes the stored answer exactly as the store keeps it.
    #[arg(long, requires = "response")]
    pub(crate) raw: bool,

    /// Writes the last checkpoint to this file, `-` for the standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "response")]
    pub(crate) checkpoint: Option<PathBuf>,

    /// How the record is written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

pub(crate) async fn run(
    options: &Lookup,
    store: &Connected,
    console: &mut Console<'_>,
) -> anyhow::Result<Ended> {
    let key = options.key.key()?;
    let Some(record) = store.store().lookup(&key).await? else {
        console::note(format_args!(
            "no record: the key {} is unused, or its retention is over",
            key.digest()
        ));
        return Ok(Ended::No);
    };
    let written = match (&options.response, &options.checkpoint) {
        (Some(file), _) => write(file, &response(&record, options.raw)?, console)?,
        (None, Some(file)) => write(file, &checkpoint(&record)?, console)?,
        (None, None) => Written::Nothing,
    };
    if written == Written::ToOutput {
        return Ok(Ended::Done);
    }
    let view = RecordView::new(Shown::Digest(Some(key.digest())), &record, None, now(store));
    match options.format {
        Format::Table => writeln!(console.out, "{}", view.table().trim_fmt())?,
        Format::Json => writeln!(console.out, "{}", serde_json::to_string(&view)?)?,
    }
    Ok(Ended::Done)
}

/// Now by this machine's clock: a record does not tell the store's.
pub(crate) fn now(store: &Connected) -> Now {
    let skew_bound = store.store().profile().skew_bound;
    Now { at: SystemClock::new().now(), skew_bound }
}

fn response(record: &Record, raw: bool) -> anyhow::Result<Vec<u8>> {
    let State::Completed { response, .. } = &record.state else {
        bail!("the record has no answer: it is not completed");
    };
    if raw { Ok(response.to_vec()) } else { answer::content(response) }
}

fn checkpoint(record: &Record) -> anyhow::Result<Vec<u8>> {
    match &record.state {
        State::InProgress { checkpoint: Some(checkpoint), .. }
        | State::Released { checkpoint: Some(checkpoint), .. } => Ok(checkpoint.to_vec()),
        _ => bail!("the record has no checkpoint"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Nothing,
    ToFile,
    ToOutput,
}

fn write(file: &Path, bytes: &[u8], console: &mut Console<'_>) -> anyhow::Result<Written> {
    if file == Path::new("-") {
        console.out.write_all(bytes)?;
        console.out.flush()?;
        return Ok(Written::ToOutput);
    }
    let written: io::Result<()> = fs::write(file, bytes);
    written.with_context(|| format!("writing {}", file.display()))?;
    Ok(Written::ToFile)
}
