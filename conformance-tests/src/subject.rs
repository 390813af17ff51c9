//! What a case works with: a fresh store, the time on its clock, and callers.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use idempotency_core::{
    ClaimOutcome, ClaimToken, Clock, Connected, IdempotencyKey, IdempotencyStore, Lease,
    ManualClock, Namespace, Record, Retention, StoreProfile, Sweep, SystemClock, Watch,
};

use crate::{
    caller::Caller,
    erased::ErasedHarness,
    failure::{Halt, Verdict},
    harness::{Hook, RawRecord, Written},
};

/// Longer than any run: what lasts this long is live to its end.
pub(crate) const LONG: Duration = Duration::from_hours(1);

/// How late a real server may be before a case takes it as a fault. Generous: it costs time only
/// when a case fails.
const PATIENCE: Duration = Duration::from_secs(3);

/// Between two looks at something that should happen soon.
const POLL: Duration = Duration::from_millis(5);

/// How much a case does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effort {
    Quick,
    Usual,
    Thorough,
}

pub(crate) struct Subject {
    harness: Arc<dyn ErasedHarness>,
    connected: Connected,
    store: Arc<dyn IdempotencyStore>,
    namespace: Namespace,
    clock: Option<ManualClock>,
    real: SystemClock,
    random: Mutex<fastrand::Rng>,
    effort: Effort,
    _guard: Option<Box<dyn std::any::Any + Send + Sync>>,
}

impl Subject {
    pub(crate) async fn fresh(
        harness: Arc<dyn ErasedHarness>,
        seed: u64,
        effort: Effort,
    ) -> Verdict<Self> {
        let fixture =
            harness.fresh().await.map_err(|error| Halt::harness("a fresh store", &error))?;
        Ok(Self {
            harness,
            store: fixture.store.store(),
            connected: fixture.store,
            namespace: fixture.namespace,
            clock: fixture.clock,
            real: SystemClock::new(),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            effort,
            _guard: fixture.guard,
        })
    }

    /// Another fresh store of the same harness, in a namespace of its own.
    pub(crate) async fn sibling(&self) -> Verdict<Self> {
        Self::fresh(Arc::clone(&self.harness), self.number(), self.effort).await
    }

    pub(crate) fn harness(&self) -> Arc<dyn ErasedHarness> {
        Arc::clone(&self.harness)
    }

    pub(crate) fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::clone(&self.store)
    }

    pub(crate) fn profile(&self) -> &StoreProfile {
        self.store.profile()
    }

    pub(crate) fn expected_profile(&self) -> StoreProfile {
        self.harness.profile()
    }

    pub(crate) fn number(&self) -> u64 {
        self.draw(|random| random.u64(..))
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `usual`, a tenth of it for a quick run, five times as much for a thorough one.
    pub(crate) fn count(&self, usual: usize) -> usize {
        match self.effort {
            Effort::Quick => (usual / 10).max(1),
            Effort::Usual => usual,
            Effort::Thorough => usual * 5,
        }
    }

    /// A key that no other case has used.
    pub(crate) fn key(&self) -> Verdict<IdempotencyKey> {
        let number = self.number();
        named("conformance", &format!("{number:016x}"))
    }

    pub(crate) fn token(&self) -> ClaimToken {
        let bytes = self.draw(|random| random.u128(..)).to_be_bytes();
        ClaimToken::from_stored_bytes(bytes)
    }

    /// Somebody with a token of its own who asks for `key`.
    pub(crate) fn caller(&self, key: &IdempotencyKey) -> Caller {
        Caller::new(self.store(), key.clone(), self.token())
    }

    /// A caller who holds `key` as it is now.
    pub(crate) async fn holder(&self, key: &IdempotencyKey) -> Verdict<Caller> {
        self.caller(key).acquire().await
    }

    pub(crate) async fn record(&self, key: &IdempotencyKey) -> Verdict<Option<Record>> {
        let found = self.store.lookup(key).await;
        found.map_err(|error| Halt::error("lookup", &error))
    }

    // time

    /// Time on the store's clock, since an origin of its own.
    pub(crate) fn now(&self) -> Duration {
        self.clock.as_ref().map_or_else(|| self.real.monotonic(), Clock::monotonic)
    }

    /// Time since `start` on that clock.
    pub(crate) fn since(&self, start: Duration) -> Duration {
        self.now().saturating_sub(start)
    }

    pub(crate) async fn elapse(&self, duration: Duration) {
        match &self.clock {
            Some(clock) => {
                clock.advance(duration);
                tokio::task::yield_now().await;
            }
            None => self.harness.elapse(duration).await,
        }
    }

    /// How late a deadline may be noticed without fault.
    pub(crate) fn late(&self) -> Duration {
        self.profile().time_step + self.profile().skew_bound
    }

    /// How much later than that a real server may be before a case takes it as a fault.
    pub(crate) fn patience(&self) -> Duration {
        match self.clock {
            Some(_) => Duration::from_millis(50),
            None => PATIENCE,
        }
    }

    /// Long enough for a few operations to happen within, and still short to wait for.
    pub(crate) fn window(&self) -> Duration {
        match self.clock {
            Some(_) => Duration::from_millis(100),
            None => Duration::from_millis(800),
        }
    }

    /// Waits until a deadline of `duration` from now is over, and then a little.
    pub(crate) async fn wait_out(&self, duration: Duration) {
        self.elapse(duration + self.late() + Duration::from_millis(1)).await;
    }

    /// Polls until `look` finds something; fails when it should have long ago.
    #[track_caller]
    pub(crate) fn soon<'a, T, F>(
        &'a self,
        what: &'a str,
        mut look: impl FnMut() -> F + Send + 'a,
    ) -> impl Future<Output = Verdict<T>> + Send + 'a
    where
        T: Send + 'a,
        F: Future<Output = Verdict<Option<T>>> + Send + 'a,
    {
        let overdue = Halt::fail(
            what,
            format!("soon, within {:?}", self.patience()),
            "nothing of it".to_owned(),
        );
        async move {
            let deadline = self.now() + self.late() + self.patience();
            loop {
                if let Some(found) = look().await? {
                    return Ok(found);
                }
                if self.now() > deadline {
                    return Err(overdue);
                }
                self.elapse(POLL).await;
            }
        }
    }

    /// Waits until a lease of `lease` is over: a stranger who refuses take-over is told so. Changes
    /// nothing.
    pub(crate) async fn until_abandoned(&self, key: &IdempotencyKey, lease: Duration) -> Verdict {
        self.wait_out(lease).await;
        let stranger = &self.caller(key).refusing();
        self.soon("a lease that is over", || async move {
            let outcome = stranger.claim().await?;
            Ok(matches!(outcome, ClaimOutcome::Abandoned(_)).then_some(()))
        })
        .await
    }

    /// Waits until a retention that ends in `rest` is over: lookup finds nothing.
    pub(crate) async fn until_gone(&self, key: &IdempotencyKey, rest: Duration) -> Verdict {
        self.wait_out(rest).await;
        self.soon("a retention that is over", || async move {
            let record = self.record(key).await?;
            Ok(record.is_none().then_some(()))
        })
        .await
    }

    // what only some stores and harnesses have

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

    /// The server's address.
    pub(crate) fn server(&self) -> Verdict<std::net::SocketAddr> {
        self.harness.server().ok_or_else(|| self.needs(Hook::Server))
    }

    pub(crate) async fn through(
        &self,
        address: std::net::SocketAddr,
    ) -> Verdict<Arc<dyn IdempotencyStore>> {
        let connected = self.harness.connect_through(address, &self.namespace).await;
        let connected = connected.map_err(|e| Halt::harness("a proxied connection", &e))?;
        connected.map(|connected| connected.store()).ok_or_else(|| self.needs(Hook::Server))
    }

    pub(crate) fn sweep(&self) -> Verdict<Arc<dyn Sweep>> {
        self.connected.sweep().ok_or_else(|| Halt::Skip("the store has no Sweep".to_owned()))
    }

    pub(crate) fn watch(&self) -> Verdict<Arc<dyn Watch>> {
        self.connected.watch().ok_or_else(|| Halt::Skip("the store has no Watch".to_owned()))
    }
}

/// The key `key` of `scope`.
pub(crate) fn named(scope: &str, key: &str) -> Verdict<IdempotencyKey> {
    IdempotencyKey::new(scope, key)
        .map_err(|error| Halt::fail("a key", "one that is accepted", error.to_string()))
}

/// A lease of `duration`.
pub(crate) fn lease(duration: Duration) -> Verdict<Lease> {
    Lease::new(duration).map_err(|e| Halt::fail("a lease", "one that is accepted", e.to_string()))
}

/// A retention of `duration`.
pub(crate) fn retention(duration: Duration) -> Verdict<Retention> {
    Retention::new(duration)
        .map_err(|e| Halt::fail("a retention", "one that is accepted", e.to_string()))
}
