//! Each verb on each store.

mod list;
mod lookup;
mod remove;
mod server;
mod settle;
mod sweep;

use crate::{
    backend::Backend,
    support::{Order, Ran, idempotency},
};

/// The calls of one test, as a reader would see them. `URL` stands for the store's.
pub(super) struct Session<'a> {
    backend: &'a Backend,
    transcript: String,
}

impl<'a> Session<'a> {
    pub(super) fn new(backend: &'a Backend) -> Self {
        Self { backend, transcript: String::new() }
    }

    pub(super) fn call(&mut self, call: &str) -> Ran {
        self.call_in(call, Order::AsTheyCame)
    }

    pub(super) fn call_in(&mut self, call: &str, order: Order) -> Ran {
        let arguments: Vec<_> = call
            .split(' ')
            .map(|word| if word == "URL" { self.backend.url.as_str() } else { word })
            .collect();
        let ran = idempotency(&arguments);
        self.transcript.push_str(&ran.transcript(call, order));
        ran
    }

    pub(super) fn golden(&self, name: &str) {
        crate::support::assert_golden(name, &self.transcript);
    }
}
