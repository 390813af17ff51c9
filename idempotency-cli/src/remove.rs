//! `idempotency remove`

use clap::Args;
use idempotency::{Connected, Record, RemoveOutcome, State};

use crate::{
    args::{KeyArgs, SeenAttempt, StoreArg},
    capability,
    console::{self, Console},
    ended::Ended,
    record::{RecordView, Shown},
    seen,
};

#[derive(Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) store: StoreArg,

    #[command(flatten)]
    pub(crate) key: KeyArgs,

    /// Only this attempt, as `lookup` and `list` show it.
    #[arg(long, value_name = "ATTEMPT")]
    pub(crate) attempt: Option<SeenAttempt>,

    /// Does not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

pub(crate) async fn run(
    options: &Remove,
    store: &Connected,
    console: &mut Console<'_>,
) -> anyhow::Result<Ended> {
    let admin = store.admin().ok_or_else(|| capability::missing(store, "remove a record"))?;
    let key = options.key.key()?;
    let Some(record) = seen::look(store, &key, options.attempt).await? else {
        return Ok(Ended::No);
    };
    let now = crate::lookup::now(store);
    let view = RecordView::new(Shown::Digest(Some(key.digest())), &record, None, now);
    console.say(format_args!("{}\n", view.table().trim_fmt()))?;
    console.say(format_args!("{}\n", plan(&record)))?;
    console.confirm("Remove it?", options.yes)?;
    match admin.remove(&key, (&record).into()).await? {
        RemoveOutcome::Removed => {
            console.say("removed")?;
            Ok(Ended::Done)
        }
        RemoveOutcome::Changed => {
            console::note("not removed: the record has changed since it was looked up");
            Ok(Ended::No)
        }
    }
}

/// What is lost with the record.
const fn plan(record: &Record) -> &'static str {
    match &record.state {
        State::Completed { .. } => {
            "The stored answer is lost. A retry of what is done already executes AGAIN, as attempt 1."
        }
        State::InProgress { .. } => {
            "The attempt may be working, or may have done its work. The next request executes beside \
             it or again, as attempt 1, and is not told. To declare an outcome: `settle`."
        }
        State::Released { .. } | State::Unused => {
            "The next request executes as attempt 1 and is not told of the earlier ones."
        }
    }
}
