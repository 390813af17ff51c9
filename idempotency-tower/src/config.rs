use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, Method, StatusCode, request::Parts};
use idempotency_core::{Disposition, Idempotency, Scope};

use crate::{KeySource, Presence, Profile, RequestSettings, capture::Bounds};

/// Names the principal of a request.
pub(crate) type ScopeOf = Arc<dyn Fn(&Parts) -> Option<Scope> + Send + Sync>;

/// Says which settings a request has of its own.
pub(crate) type SettingsOf = Arc<dyn Fn(&Parts) -> RequestSettings + Send + Sync>;

/// All settings of a layer.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) idempotency: Idempotency,
    /// Whether the executor came with a label of its own.
    is_labelled: bool,
    pub(crate) scope_of: ScopeOf,
    pub(crate) settings_of: Option<SettingsOf>,
    pub(crate) profile: Profile,
    pub(crate) fingerprint_headers: Vec<HeaderName>,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_response_bytes: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) store_wait: Duration,
    pub(crate) buffer_wait: Duration,
}

impl Config {
    pub(crate) fn new(idempotency: Idempotency, scope_of: ScopeOf) -> Self {
        let mut config = Self {
            is_labelled: !idempotency.label().is_empty(),
            idempotency,
            scope_of,
            settings_of: None,
            profile: Profile::default(),
            fingerprint_headers: Vec::new(),
            max_request_bytes: 1 << 20,
            max_response_bytes: 1 << 20,
            body_timeout: Duration::from_secs(30),
            store_wait: Duration::from_secs(2),
            buffer_wait: Duration::from_millis(250),
        };
        config.label_by_profile();
        config
    }

    /// Events and metrics name the profile, unless the executor has a label of its own.
    pub(crate) fn label_by_profile(&mut self) {
        if !self.is_labelled {
            self.idempotency = self.idempotency.clone().with_label(self.profile.name);
        }
    }

    /// Whether the settings of a request like this have to be looked at.
    pub(crate) fn may_concern(&self, method: &Method, headers: &HeaderMap) -> bool {
        self.profile.methods.contains(method)
            && (self.settings_of.is_some() || self.concerns(headers))
    }

    /// The settings of one request.
    pub(crate) fn of_request(self: &Arc<Self>, head: &Parts) -> Arc<Self> {
        let Some(settings_of) = &self.settings_of else {
            return Arc::clone(self);
        };
        let settings = settings_of(head);
        if settings == RequestSettings::new() {
            return Arc::clone(self);
        }
        let mut config = Self::clone(self);
        settings.apply(&mut config);
        Arc::new(config)
    }

    /// Whether the request has a key, or may have one, or needs one.
    pub(crate) fn concerns(&self, headers: &HeaderMap) -> bool {
        match (self.profile.presence, &self.profile.key_source) {
            (Presence::Off, _) => false,
            (Presence::Optional, KeySource::Header(name)) => headers.contains_key(name),
            (Presence::Required | Presence::Optional, _) => true,
        }
    }

    pub(crate) fn change_executor(&mut self, change: impl FnOnce(Idempotency) -> Idempotency) {
        self.idempotency = change(self.idempotency.clone());
    }

    /// What becomes of a key whose request was answered with this status.
    pub(crate) fn disposition(&self, status: StatusCode) -> Disposition {
        let profile = &self.profile;
        if profile.never_final.contains(&status) {
            return Disposition::Failed;
        }
        // of a request that has come in full it can only say that the work took too long
        let status = match status {
            StatusCode::REQUEST_TIMEOUT => StatusCode::GATEWAY_TIMEOUT,
            status => status,
        };
        profile
            .result_policy
            .unwrap_or_else(|| self.idempotency.result_policy())
            .of_status(status.as_u16(), self.idempotency.takeover())
    }

    /// How far a response is read.
    pub(crate) fn bounds(&self) -> Bounds<'_> {
        Bounds {
            max_bytes: self.max_response_bytes,
            wait: self.buffer_wait,
            clock: self.idempotency.clock(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("profile", &self.profile.name)
            .field("idempotency", &self.idempotency)
            .field("fingerprint_headers", &self.fingerprint_headers)
            .field("max_request_bytes", &self.max_request_bytes)
            .field("max_response_bytes", &self.max_response_bytes)
            .field("body_timeout", &self.body_timeout)
            .field("store_wait", &self.store_wait)
            .field("buffer_wait", &self.buffer_wait)
            .finish_non_exhaustive()
    }
}
