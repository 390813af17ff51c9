//! What an operator has seen, compared with what is there.

use idempotency::{Connected, IdempotencyKey, Record};

pub(crate) use crate::record::state_of;
use crate::{args::SeenAttempt, console};

/// The record of `key`, if it is there and of the attempt that was `seen`; what is not so is said.
pub(crate) async fn look(
    store: &Connected,
    key: &IdempotencyKey,
    seen: Option<SeenAttempt>,
) -> anyhow::Result<Option<Record>> {
    let Some(record) = store.store().lookup(key).await? else {
        console::note(format_args!(
            "no record: the key {} is unused, or its retention is over",
            key.digest()
        ));
        return Ok(None);
    };
    let there = SeenAttempt::from(&record);
    if let Some(seen) = seen.filter(|seen| *seen != there) {
        console::note(format_args!(
            "nothing was changed: the record is of attempt {there}, not of {seen}"
        ));
        return Ok(None);
    }
    Ok(Some(record))
}
