//! What a store cannot do.

use idempotency::Connected;

use crate::ended::Refused;

/// This store cannot `verb`.
pub(crate) fn missing(store: &Connected, verb: &str) -> Refused {
    Refused::CannotDo(format!("the store {} cannot {verb}", store.store().profile().name))
}
