//! What only some stores and harnesses have.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use idempotency_core::{IdempotencyKey, IdempotencyStore, StoreAdmin, Sweep, Watch};

use super::Subject;
use crate::{
    failure::{Halt, Verdict},
    harness::{Aged, Hook, RawRecord, Written},
};

impl Subject {
    fn needs(&self, hook: Hook) -> Halt {
        let method = hook.method();
        if self.harness.leaves_out().contains(&hook) {
            return Halt::Skip(format!("the harness leaves out {method}"));
        }
        let advice = format!("{method}, or Hook::{hook:?} in Harness::leaves_out");
        Halt::fail("what this case needs", advice, "neither")
    }

    /// A store of the same records through another connection.
    pub(crate) async fn second(&self) -> Verdict<Arc<dyn IdempotencyStore>> {
        let connected = self.harness.connect_again(&self.namespace).await;
        let connected = connected.map_err(|e| Halt::harness("a second connection", &e))?;
        connected
            .map(|connected| connected.store())
            .ok_or_else(|| self.needs(Hook::SecondConnection))
    }

    pub(crate) async fn write_raw(&self, key: &IdempotencyKey, raw: RawRecord<'_>) -> Verdict {
        let written = self.harness.write_raw(&self.namespace, key, raw).await;
        match written.map_err(|error| Halt::harness("a raw write", &error))? {
            Some(Written::Done) => Ok(()),
            Some(Written::Impossible) => {
                Err(Halt::Skip(format!("nobody can put {raw:?} into this store")))
            }
            None => Err(self.needs(Hook::RawWrite)),
        }
    }

    /// Makes a record older, where the harness can.
    pub(crate) async fn age(&self, key: &IdempotencyKey, duration: Duration) -> Verdict<Aged> {
        let aged = self.harness.age(&self.namespace, key, duration).await;
        aged.map_err(|error| Halt::harness("an older record", &error))
    }

    /// Whether the test moves the store's clock.
    pub(crate) const fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// The server's address.
    pub(crate) fn server(&self) -> Verdict<SocketAddr> {
        self.harness.server().ok_or_else(|| self.needs(Hook::Server))
    }

    pub(crate) async fn through(&self, address: SocketAddr) -> Verdict<Arc<dyn IdempotencyStore>> {
        let connected = self.harness.connect_through(address, &self.namespace).await;
        let connected = connected.map_err(|e| Halt::harness("a proxied connection", &e))?;
        connected.map(|connected| connected.store()).ok_or_else(|| self.needs(Hook::Server))
    }

    pub(crate) fn admin(&self) -> Option<Arc<dyn StoreAdmin>> {
        self.connected.admin()
    }

    pub(crate) fn sweep(&self) -> Verdict<Arc<dyn Sweep>> {
        self.connected.sweep().ok_or_else(|| Halt::Skip("the store has no Sweep".to_owned()))
    }

    pub(crate) fn watch(&self) -> Verdict<Arc<dyn Watch>> {
        self.connected.watch().ok_or_else(|| Halt::Skip("the store has no Watch".to_owned()))
    }
}
