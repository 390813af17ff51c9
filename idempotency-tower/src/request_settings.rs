use idempotency_core::{OnDuplicate, ResultPolicy, Retention, Takeover};

use crate::{Presence, config::Config};

/// Settings of single requests, in the place of the layer's; see
/// [`IdempotencyLayer::per_request`](crate::IdempotencyLayer::per_request).
///
/// ```
/// use std::time::Duration;
///
/// use http::request::Parts;
/// use idempotency_tower::{RequestSettings, Retention};
///
/// /// Payouts are replayed for a month, and their duplicates wait.
/// fn settings_of(request: &Parts) -> RequestSettings {
///     let settings = RequestSettings::new();
///     if !request.uri.path().starts_with("/v1/payouts") {
///         return settings;
///     }
///     let settings = settings.required().wait(Duration::from_secs(5));
///     match Retention::new(Duration::from_hours(30 * 24)) {
///         Ok(month) => settings.retention(month),
///         Err(_) => settings,
///     }
/// }
/// # let _ = settings_of;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[must_use]
pub struct RequestSettings {
    presence: Option<Presence>,
    retention: Option<Retention>,
    result_policy: Option<ResultPolicy>,
    on_duplicate: Option<OnDuplicate>,
    takeover: Option<Takeover>,
}

impl RequestSettings {
    /// The layer's settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Without a key the request is refused.
    pub const fn required(self) -> Self {
        Self { presence: Some(Presence::Required), ..self }
    }

    /// Without a key the request passes.
    pub const fn optional(self) -> Self {
        Self { presence: Some(Presence::Optional), ..self }
    }

    /// The request passes, with a key or without.
    pub const fn off(self) -> Self {
        Self { presence: Some(Presence::Off), ..self }
    }

    /// How long its answer is replayed.
    pub const fn retention(self, retention: Retention) -> Self {
        Self { retention: Some(retention), ..self }
    }

    /// Which statuses are final.
    pub const fn result_policy(self, policy: ResultPolicy) -> Self {
        Self { result_policy: Some(policy), ..self }
    }

    /// While the first request runs it waits for the answer, at most this long.
    pub const fn wait(self, timeout: std::time::Duration) -> Self {
        Self { on_duplicate: Some(OnDuplicate::Wait { timeout }), ..self }
    }

    /// While the first request runs it is refused.
    pub const fn reject(self) -> Self {
        Self { on_duplicate: Some(OnDuplicate::Reject), ..self }
    }

    /// Whether it may run after an attempt whose outcome is unknown. Where it may not, the executor's
    /// recovery hook is asked, if there is one.
    pub const fn takeover(self, takeover: Takeover) -> Self {
        Self { takeover: Some(takeover), ..self }
    }

    pub(crate) fn apply(self, config: &mut Config) {
        if let Some(presence) = self.presence {
            config.profile.presence = presence;
        }
        if let Some(policy) = self.result_policy {
            config.profile.result_policy = Some(policy);
        }
        if let Some(retention) = self.retention {
            config.change_executor(|executor| executor.with_retention(retention));
        }
        if let Some(on_duplicate) = self.on_duplicate {
            config.change_executor(|executor| executor.with_on_duplicate(on_duplicate));
        }
        if let Some(takeover) = self.takeover {
            config.change_executor(|executor| executor.with_takeover(takeover));
        }
    }
}
