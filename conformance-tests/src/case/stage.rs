//! Where the executor's cases play: an executor over a script, and time that goes on by itself.

use std::{future::Future, sync::Arc, time::Duration};

use idempotency_core::{
    Connected, Fingerprint, Idempotency, IdempotencyBuilder, IdempotencyKey, Lease,
};

use crate::{
    erased::ErasedHarness,
    failure::{Halt, Verdict},
    script::{Plan, Reply, Script},
    subject::{Subject, named},
};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// How far the clock goes between two looks.
const STEP: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct Stage {
    harness: Arc<dyn ErasedHarness>,
    pub(crate) script: Script,
    pub(crate) key: IdempotencyKey,
    pub(crate) fingerprint: Fingerprint,
}

/// A script that answers everything at once.
pub(crate) const fn at_once(_: idempotency_core::Operation, _: usize) -> Reply {
    Reply::Now
}

impl Stage {
    /// Another executor over the same script and the same clock.
    pub(crate) fn builder(&self) -> Verdict<IdempotencyBuilder> {
        let store = Connected::new(Arc::new(self.script.clone()));
        let lease = Lease::new(LEASE)
            .map_err(|error| Halt::fail("a lease", "accepted", error.to_string()))?;
        let builder = self.harness.executor(store);
        Ok(builder.lease(lease).clock(self.script.clock().clone()))
    }

    pub(crate) fn executor(&self) -> Verdict<Idempotency> {
        built(self.builder()?)
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, duration: Duration) {
        let clock = self.script.clock().clone();
        idempotency_core::Clock::sleep(&clock, duration).await;
    }
}

pub(crate) fn built(builder: IdempotencyBuilder) -> Verdict<Idempotency> {
    builder.build().map_err(|error| Halt::fail("an executor", "built", error.to_string()))
}

/// Plays `scene` on one thread, so that the clock goes on only when nobody has anything to do.
pub(crate) async fn play<F>(
    t: &Subject,
    plan: Plan,
    scene: impl FnOnce(Stage) -> F + Send + 'static,
) -> Verdict
where
    F: Future<Output = Verdict> + Send + 'static,
{
    let stage = Stage {
        harness: t.harness(),
        script: Script::new(plan),
        key: named("conformance", &format!("{:016x}", t.number()))?,
        fingerprint: Fingerprint::of_bytes("the request"),
    };
    let played = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        match runtime {
            Ok(runtime) => runtime.block_on(with_time(stage.script.clone(), scene(stage))),
            Err(error) => Err(Halt::fail("a runtime", "started", error.to_string())),
        }
    });
    let panicked = |error: tokio::task::JoinError| {
        Err(Halt::fail("the executor", "no panic", error.to_string()))
    };
    played.await.unwrap_or_else(panicked)
}

/// An hour on the clock is longer than any scene.
async fn with_time<F>(script: Script, scene: F) -> Verdict
where
    F: Future<Output = Verdict> + Send + 'static,
{
    let scene = tokio::spawn(scene);
    while script.now() < Duration::from_hours(1) {
        for _ in 0..30 {
            tokio::task::yield_now().await;
        }
        if scene.is_finished() {
            let panicked = |error: tokio::task::JoinError| {
                Err(Halt::fail("the executor", "no panic", error.to_string()))
            };
            return scene.await.unwrap_or_else(panicked);
        }
        script.clock().advance(STEP);
    }
    scene.abort();
    Err(Halt::fail("the executor", "an end within an hour on its clock", "none"))
}
