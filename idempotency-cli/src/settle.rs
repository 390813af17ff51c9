//! `idempotency settle`

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use idempotency::{Connected, ListState, Record, Retention, SettleOutcome, Settlement};

use crate::{
    args::{KeyArgs, SeenAttempt, StoreArg, duration},
    capability,
    console::{self, Console},
    ended::Ended,
    record::{
        RecordView, Shown, ago,
        answer::{AnswerView, Encoding},
    },
    seen::{self, state_of},
};

#[derive(Args)]
#[command(group(clap::ArgGroup::new("outcome").required(true)))]
pub(crate) struct Settle {
    #[command(flatten)]
    pub(crate) store: StoreArg,

    #[command(flatten)]
    pub(crate) key: KeyArgs,

    /// It happened, and this is the answer for every retry: a file, `-` for the standard input.
    #[arg(long, value_name = "FILE", group = "outcome", requires = "encoding")]
    pub(crate) response: Option<PathBuf>,

    /// It is known not to have happened: the next request executes, as the next attempt.
    #[arg(long, group = "outcome")]
    pub(crate) failed: bool,

    /// No attempt ever began: the key is unused again, and the next request executes as attempt 1.
    #[arg(long, group = "outcome")]
    pub(crate) not_started: bool,

    /// What the response is.
    #[arg(long = "as", value_enum, value_name = "KIND", id = "encoding", requires = "response")]
    pub(crate) encoding: Option<Encoding>,

    /// How long the response is replayed.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    pub(crate) retention: Duration,

    /// Only this attempt, as `lookup` and `list` show it.
    #[arg(long, value_name = "ATTEMPT")]
    pub(crate) attempt: Option<SeenAttempt>,

    /// Does not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

pub(crate) async fn run(
    options: &Settle,
    store: &Connected,
    console: &mut Console<'_>,
) -> anyhow::Result<Ended> {
    let admin = store.admin().ok_or_else(|| capability::missing(store, "settle an attempt"))?;
    let key = options.key.key()?;
    let settlement = options.settlement()?;
    let Some(record) = seen::look(store, &key, options.attempt).await? else {
        return Ok(Ended::No);
    };
    let now = crate::lookup::now(store);
    let view = RecordView::new(Shown::Digest(Some(key.digest())), &record, None, now);
    console.say(format_args!("{}\n", view.table().trim_fmt()))?;
    // whether a lease is over is for the store to say
    if let Some(ListState::Completed | ListState::Failed) = state_of(&record, now) {
        console::note("nothing to settle: the outcome of this attempt is known");
        return Ok(Ended::No);
    }
    console.say(format_args!("{}\n", plan(&settlement, &record)))?;
    console.confirm("Settle it so?", options.yes)?;
    match admin.settle(&key, (&record).into(), settlement).await? {
        SettleOutcome::Settled => {
            console.say("settled")?;
            Ok(Ended::Done)
        }
        SettleOutcome::StillRunning => {
            console::note("not settled: the attempt is alive, its lease is not over");
            Ok(Ended::No)
        }
        SettleOutcome::Changed => {
            console::note("not settled: the record has changed since it was looked up");
            Ok(Ended::No)
        }
    }
}

impl Settle {
    fn settlement(&self) -> anyhow::Result<Settlement> {
        let (Some(file), Some(encoding)) = (&self.response, self.encoding) else {
            let settlement = if self.failed { Settlement::Failed } else { Settlement::NotStarted };
            return Ok(settlement);
        };
        let content = read(file).with_context(|| format!("reading {}", file.display()))?;
        let response = encoding.answer(content)?.as_stored().clone();
        Ok(Settlement::Completed { response, retention: Retention::new(self.retention)? })
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return fs::read(file);
    }
    let mut content = Vec::new();
    io::stdin().lock().read_to_end(&mut content)?;
    Ok(content)
}

/// What the settlement means.
fn plan(settlement: &Settlement, record: &Record) -> String {
    match settlement {
        Settlement::Completed { response, retention } => format!(
            "As completed: every retry gets this answer for {}, and nothing runs again.\n\
             The answer: {}",
            ago(retention.get()),
            AnswerView::of(response)
        ),
        Settlement::Failed => format!(
            "As failed, known not to have happened: the next request with this key executes at once, \
             as attempt {}.",
            record.attempt.next()
        ),
        Settlement::NotStarted => {
            "As never started: the key is unused again. The next request with \
             it executes as attempt 1 and is not told of this one."
                .to_owned()
        }
    }
}
