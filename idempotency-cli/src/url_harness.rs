//! A harness for whatever store a URL names.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use idempotency::{ConnectError, Connected, Namespace, Sharing, StoreProfile};
use idempotency_conformance::{Fixture, Harness, HarnessError, Hook, unique_namespace};

use crate::store_url::StoreUrl;

pub(crate) struct UrlHarness {
    url: StoreUrl,
    /// What the store says of itself, or why it cannot be reached.
    profile: Result<StoreProfile, String>,
    /// Stores whose records nobody else can reach: another connection is a clone.
    clones: Mutex<HashMap<String, Connected>>,
}

/// Nothing but the store itself knows where it keeps its records.
const NO_RAW_WRITE: &[Hook] = &[Hook::RawWrite];
const NO_SERVER: &[Hook] = &[Hook::RawWrite, Hook::Server];

impl UrlHarness {
    /// A harness for the store at `url`. That a server cannot be reached is found out here, once,
    /// and every case fails with it.
    ///
    /// # Errors
    /// The URL names no store.
    pub(crate) async fn connect(url: &str) -> Result<Self, ConnectError> {
        let profile = match idempotency::connect(url).await {
            Ok(connected) => Ok(connected.store().profile().clone()),
            Err(ConnectError::Store(error)) => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        Ok(Self { url: StoreUrl::new(url), profile, clones: Mutex::default() })
    }

    fn clones(&self) -> MutexGuard<'_, HashMap<String, Connected>> {
        self.clones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Harness for UrlHarness {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let profile = self.profile.as_ref().map_err(String::as_str)?;
        let namespace = unique_namespace();
        let connected = idempotency::connect(self.url.in_namespace(&namespace).as_str()).await?;
        if profile.sharing == Sharing::Process {
            self.clones().insert(namespace.name().to_owned(), connected.clone());
        }
        Ok(Fixture::new(connected, namespace))
    }

    fn profile(&self) -> StoreProfile {
        self.profile.clone().unwrap_or_else(|_| StoreProfile::new("unreachable"))
    }

    fn leaves_out(&self) -> &'static [Hook] {
        if self.url.server().is_some() { NO_RAW_WRITE } else { NO_SERVER }
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let clone = self.clones().get(namespace.name()).cloned();
        if clone.is_some() {
            return Ok(clone);
        }
        Ok(Some(idempotency::connect(self.url.in_namespace(namespace).as_str()).await?))
    }

    fn server(&self) -> Option<SocketAddr> {
        self.url.server()
    }

    async fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let Some(url) = self.url.in_namespace(namespace).through(address) else {
            return Ok(None);
        };
        Ok(Some(idempotency::connect(url.as_str()).await?))
    }
}

#[cfg(test)]
mod tests {
    use idempotency_conformance::Suite;

    use super::*;

    /// Kind of fault: a missing server turns a suite green.
    #[tokio::test]
    async fn an_unreachable_server_fails_every_case_and_skips_none() {
        let harness = UrlHarness {
            url: StoreUrl::new("redis://127.0.0.1/"),
            profile: Err("connect failed: connection refused".to_owned()),
            clones: Mutex::default(),
        };
        let report = Suite::new(harness).select(|case| case.clause().id() < "C47").run().await;
        assert_eq!((report.passed(), report.skipped()), (0, 0));
        assert!(!report.is_green());
        assert_eq!(report.store(), "unreachable");
    }
}
