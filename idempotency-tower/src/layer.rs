use std::{sync::Arc, time::Duration};

use http::{HeaderName, request::Parts};
use idempotency_core::{
    Idempotency, OnDuplicate, Recovery, ResultPolicy, Retention, Scope, Takeover,
};
use tower_layer::Layer;

use crate::{
    IdempotencyService, Presence, Profile, RequestSettings, StoredHeaders, config::Config,
    flight::Flight,
};

/// Runs the requests of the inner service once per idempotency key.
///
/// Clones share the store, the cap on requests in flight and [`drain`](Self::drain); settings that are
/// changed on a clone are its own. Put it inside authentication and on routes; the crate's
/// documentation has the order of layers.
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    config: Arc<Config>,
    flight: Arc<Flight>,
}

/// Bodies are held in memory, so this bounds it.
const MAX_IN_FLIGHT: usize = 1024;

impl IdempotencyLayer {
    /// A layer over a store, or over an [`Idempotency`] with settings of its own, with the profile
    /// [`Profile::ietf`].
    ///
    /// `scope_of` names the principal of a request: the account, not the credential, so that a
    /// refreshed token finds the same keys. A request with a key and without a principal is answered
    /// with 401. Keys that all callers share must be asked for with [`Scope::global`].
    pub fn new<F>(store: impl Into<Idempotency>, scope_of: F) -> Self
    where
        F: Fn(&Parts) -> Option<Scope> + Send + Sync + 'static,
    {
        Self {
            config: Arc::new(Config::new(store.into(), Arc::new(scope_of))),
            flight: Arc::new(Flight::new(MAX_IN_FLIGHT)),
        }
    }

    /// Another profile. Comes before the settings that change a part of it. Its name becomes the
    /// executor's label in events and metrics, unless that has one of its own.
    #[must_use]
    pub fn profile(self, profile: Profile) -> Self {
        let retention = profile.retention;
        let layer = self.with(|config| {
            config.profile = profile;
            config.label_by_profile();
        });
        match retention {
            Some(retention) => layer.retention(retention),
            None => layer,
        }
    }

    /// Refuses requests without a key.
    #[must_use]
    pub fn required(self) -> Self {
        self.with(|config| config.profile.presence = Presence::Required)
    }

    /// Lets requests without a key pass, where the profile requires one.
    #[must_use]
    pub fn optional(self) -> Self {
        self.with(|config| config.profile.presence = Presence::Optional)
    }

    /// Settings of single requests, by kind of operation: `settings_of` says in what a request differs
    /// from the settings of the layer. Called for each request of the profile's methods, so it should
    /// be quick.
    #[must_use]
    pub fn per_request<F>(self, settings_of: F) -> Self
    where
        F: Fn(&Parts) -> RequestSettings + Send + Sync + 'static,
    {
        self.with(|config| config.settings_of = Some(Arc::new(settings_of)))
    }

    /// How long answers are replayed. At least as long as the lease.
    #[must_use]
    pub fn retention(self, retention: Retention) -> Self {
        self.executor(|executor| executor.with_retention(retention))
    }

    /// What happens to a repetition while the first request runs. Default: it is refused. One that waits
    /// counts as under way: see [`max_in_flight`](Self::max_in_flight).
    #[must_use]
    pub fn on_duplicate(self, on_duplicate: OnDuplicate) -> Self {
        self.executor(|executor| executor.with_on_duplicate(on_duplicate))
    }

    /// Whether a request may run after an attempt whose outcome is unknown. Default: it may, and is told
    /// its number.
    #[must_use]
    pub fn takeover(self, takeover: Takeover) -> Self {
        self.executor(|executor| executor.with_takeover(takeover))
    }

    /// Refuses takeover and asks `recovery` what became of an attempt whose outcome is unknown; it
    /// answers "it happened" with what [`stored_response`](crate::stored_response()) makes.
    #[must_use]
    pub fn recovery(self, recovery: impl Recovery + 'static) -> Self {
        self.executor(|executor| executor.with_recovery(recovery))
    }

    /// Which statuses are final. A 408 of the inner service counts as a 504: all of the request was there.
    #[must_use]
    pub fn result_policy(self, policy: ResultPolicy) -> Self {
        self.with(|config| config.profile.result_policy = Some(policy))
    }

    /// Which response headers are stored.
    #[must_use]
    pub fn stored_headers(self, stored: StoredHeaders) -> Self {
        self.with(|config| config.profile.stored_headers = stored)
    }

    /// Request headers that make another request of it, beside method, path, query and body. Never
    /// name one that changes from try to try, like `Authorization`.
    #[must_use]
    pub fn fingerprint_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        let names = names.into_iter().collect();
        self.with(|config| config.fingerprint_headers = names)
    }

    /// The longest request body under a key; longer ones are answered with 413 before anything is
    /// claimed. Default 1 MiB.
    #[must_use]
    pub fn max_request_bytes(self, bytes: usize) -> Self {
        self.with(|config| config.max_request_bytes = bytes)
    }

    /// How long a request body may take to arrive; slower ones are answered with 408 before anything is
    /// claimed. Default 30 s.
    #[must_use]
    pub fn body_timeout(self, timeout: Duration) -> Self {
        self.with(|config| config.body_timeout = timeout)
    }

    /// The longest response body that is stored. A longer one reaches its caller in full, and a
    /// repetition is told that the answer was not kept. Default 1 MiB; the store may take less.
    #[must_use]
    pub fn max_response_bytes(self, bytes: usize) -> Self {
        self.with(|config| config.max_response_bytes = bytes)
    }

    /// How long an answer waits to be stored before it is sent all the same. The store is tried on
    /// until the lease ends. Default 2 s.
    #[must_use]
    pub fn store_wait(self, wait: Duration) -> Self {
        self.with(|config| config.store_wait = wait)
    }

    /// How long a response body may take to end before it is treated as a stream. Default 250 ms.
    #[must_use]
    pub fn buffer_wait(self, wait: Duration) -> Self {
        self.with(|config| config.buffer_wait = wait)
    }

    /// How many requests with a key may be under way at once; more are answered with 503. Each holds
    /// up to a request and a response body in memory. Default 1024. Not shared with earlier clones, so
    /// routes whose duplicates wait can have a cap of their own, and have to be
    /// [drained](Self::drain) of their own.
    #[must_use]
    pub fn max_in_flight(self, requests: usize) -> Self {
        Self { flight: Arc::new(Flight::new(requests)), ..self }
    }

    /// How many requests with a key are under way, also those whose client has gone.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Ends when no request with a key is under way; later ones, and those whose body is still to come,
    /// are refused with 503.
    ///
    /// For a graceful shutdown: first let the server end, then drain, so that requests whose client
    /// has gone are carried out and stored too.
    pub async fn drain(&self) {
        self.flight.drain().await;
    }

    fn executor(self, change: impl FnOnce(Idempotency) -> Idempotency) -> Self {
        self.with(|config| config.change_executor(change))
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let (config, flight) = (Arc::clone(&self.config), Arc::clone(&self.flight));
        IdempotencyService::new(inner, config, flight)
    }
}
