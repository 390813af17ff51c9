//! `idempotency schema`

use clap::Args;
use idempotency::Connected;

use crate::{args::StoreArg, console::Console, ended::Ended};

#[derive(Args)]
pub(crate) struct Schema {
    #[command(flatten)]
    pub(crate) store: StoreArg,

    /// Sets the store up. Changes nothing that is there already.
    #[arg(long)]
    pub(crate) apply: bool,
}

pub(crate) async fn run(
    options: &Schema,
    store: &Connected,
    console: &mut Console<'_>,
) -> anyhow::Result<Ended> {
    let name = store.store().profile().name;
    let Some(schema) = store.schema() else {
        writeln!(console.out, "nothing to do: {name} needs no setting up")?;
        return Ok(Ended::Done);
    };
    if options.apply {
        schema.create().await?;
        writeln!(console.out, "the store is set up")?;
    } else {
        writeln!(console.out, "{}", schema.describe().trim_end())?;
    }
    Ok(Ended::Done)
}
