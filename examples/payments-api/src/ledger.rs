use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::charge::Kind;

/// One effect that really happened.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Effect {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    #[serde(skip)]
    pub(crate) account: String,
    pub(crate) customer: String,
    pub(crate) amount: u64,
    pub(crate) currency: String,
    /// None: the request had no key.
    pub(crate) attempt: Option<u64>,
    pub(crate) key_digest: Option<String>,
}

/// The money that moved, line by line. It never removes duplicates: a line too many is a charge too
/// many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Effect>>>);

impl Ledger {
    pub(crate) fn add(&self, effect: Effect) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(effect);
    }

    pub(crate) fn effects(&self) -> Vec<Effect> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
