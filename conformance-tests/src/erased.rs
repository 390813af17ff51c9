//! A harness without its type, so that each case is compiled once and not once a store.

use std::{net::SocketAddr, time::Duration};

use async_trait::async_trait;
use idempotency_core::{Connected, IdempotencyBuilder, IdempotencyKey, Namespace, StoreProfile};

use crate::harness::{Aged, Fixture, Harness, HarnessError, Hook, RawRecord, Written};

#[async_trait]
pub(crate) trait ErasedHarness: Send + Sync {
    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError>;
    fn profile(&self) -> StoreProfile;
    fn leaves_out(&self) -> &'static [Hook];
    async fn elapse(&self, duration: Duration);
    async fn age(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        duration: Duration,
    ) -> Result<Aged, HarnessError>;
    async fn connect_again(&self, namespace: &Namespace)
    -> Result<Option<Connected>, HarnessError>;
    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError>;
    fn server(&self) -> Option<SocketAddr>;
    async fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError>;
    fn executor(&self, store: Connected) -> IdempotencyBuilder;
}

#[async_trait]
impl<H: Harness> ErasedHarness for H {
    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let fixture = Harness::fresh(self).await?;
        Ok(Fixture {
            store: fixture.store.into(),
            namespace: fixture.namespace,
            clock: fixture.clock,
            guard: fixture.guard,
        })
    }

    fn profile(&self) -> StoreProfile {
        Harness::profile(self)
    }

    fn leaves_out(&self) -> &'static [Hook] {
        Harness::leaves_out(self)
    }

    async fn elapse(&self, duration: Duration) {
        Harness::elapse(self, duration).await;
    }

    async fn age(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        duration: Duration,
    ) -> Result<Aged, HarnessError> {
        Harness::age(self, namespace, key, duration).await
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let store = Harness::connect_again(self, namespace).await?;
        Ok(store.map(Into::into))
    }

    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        Harness::write_raw(self, namespace, key, raw).await
    }

    fn server(&self) -> Option<SocketAddr> {
        Harness::server(self)
    }

    async fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let store = Harness::connect_through(self, address, namespace).await?;
        Ok(store.map(Into::into))
    }

    fn executor(&self, store: Connected) -> IdempotencyBuilder {
        Harness::executor(self, store)
    }
}
