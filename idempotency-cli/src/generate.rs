//! `idempotency completions` and `idempotency man`

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{cli::Cli, console::Console, ended::Ended};

#[derive(Args)]
pub(crate) struct Completions {
    /// The shell.
    pub(crate) shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManPages {
    /// Writes a page for each verb into this folder, instead of the page of the program to the
    /// standard output.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

pub(crate) fn completions(
    options: &Completions,
    console: &mut Console<'_>,
) -> anyhow::Result<Ended> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "idempotency", &mut script);
    console.out.write_all(&script)?;
    Ok(Ended::Done)
}

pub(crate) fn man(options: &ManPages, console: &mut Console<'_>) -> anyhow::Result<Ended> {
    let Some(folder) = &options.dir else {
        Man::new(Cli::command()).render(&mut console.out)?;
        return Ok(Ended::Done);
    };
    let failed = || format!("writing man pages into {}", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(failed)?;
    Ok(Ended::Done)
}
