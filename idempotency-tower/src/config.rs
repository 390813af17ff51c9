use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderName, request::Parts};
use idempotency_core::{Disposition, Idempotency, Scope};

use crate::{Profile, capture::Bounds};

/// Names the principal of a request.
pub(crate) type ScopeOf = Arc<dyn Fn(&Parts) -> Option<Scope> + Send + Sync>;

/// All settings of a layer.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) idempotency: Idempotency,
    pub(crate) scope_of: ScopeOf,
    pub(crate) profile: Profile,
    pub(crate) fingerprint_headers: Vec<HeaderName>,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_response_bytes: usize,
    pub(crate) store_wait: Duration,
    pub(crate) buffer_wait: Duration,
}

impl Config {
    pub(crate) fn new(idempotency: Idempotency, scope_of: ScopeOf) -> Self {
        Self {
            idempotency,
            scope_of,
            profile: Profile::default(),
            fingerprint_headers: Vec::new(),
            max_request_bytes: 1 << 20,
            max_response_bytes: 1 << 20,
            store_wait: Duration::from_secs(2),
            buffer_wait: Duration::from_millis(250),
        }
    }

    /// What becomes of a key whose request was answered with this status.
    pub(crate) fn disposition(&self, status: http::StatusCode) -> Disposition {
        self.profile
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
            .field("store_wait", &self.store_wait)
            .field("buffer_wait", &self.buffer_wait)
            .finish_non_exhaustive()
    }
}
