//! `idempotency sweep`

use std::num::NonZeroU32;

use clap::Args;
use idempotency::{Connected, SweepReport};
use serde::Serialize;

use crate::{
    args::{Format, StoreArg},
    capability,
    console::Console,
    ended::Ended,
    progress,
};

#[derive(Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    pub(crate) store: StoreArg,

    /// At most this many records at a time.
    #[arg(long, value_name = "NUMBER", default_value = "1000")]
    pub(crate) batch: NonZeroU32,

    /// How the result is written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Default, Serialize)]
struct Swept {
    removed: u64,
    abandoned: u64,
}

pub(crate) async fn run(
    options: &Sweep,
    store: &Connected,
    console: &mut Console<'_>,
) -> anyhow::Result<Ended> {
    let Some(sweep) = store.sweep() else {
        return without_sweep(options, store, console);
    };
    let progress = progress::counter("records removed");
    let mut total = Swept::default();
    loop {
        let SweepReport { removed, abandoned, more } = sweep.sweep(options.batch).await?;
        total.removed += removed;
        total.abandoned += abandoned;
        progress.inc(removed);
        if !more {
            break;
        }
    }
    progress.finish_and_clear();
    show(options, &total, console)?;
    Ok(Ended::Done)
}

fn show(options: &Sweep, total: &Swept, console: &mut Console<'_>) -> anyhow::Result<()> {
    if options.format == Format::Json {
        writeln!(console.out, "{}", serde_json::to_string(total)?)?;
        return Ok(());
    }
    writeln!(console.out, "removed {} records past their retention", total.removed)?;
    if total.abandoned > 0 {
        let Swept { abandoned, .. } = total;
        writeln!(console.out, "of these {abandoned} were abandoned: nobody settled their outcome")?;
    }
    Ok(())
}

/// Where there is nothing to do, that is done.
fn without_sweep(
    options: &Sweep,
    store: &Connected,
    console: &mut Console<'_>,
) -> anyhow::Result<Ended> {
    let profile = store.store().profile().clone();
    if !profile.expires_by_itself {
        return Err(capability::missing(store, "sweep").into());
    }
    if options.format == Format::Json {
        show(options, &Swept::default(), console)?;
    } else {
        let name = profile.name;
        writeln!(console.out, "nothing to do: {name} removes records past their retention itself")?;
    }
    Ok(Ended::Done)
}
