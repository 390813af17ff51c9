use std::borrow::Cow;

use http::{HeaderName, HeaderValue, Method, StatusCode};
use idempotency_core::{ResultPolicy, Retention};

use crate::StoredHeaders;

/// The HTTP side of idempotency as one API defines it: where the key stands, what is asked of it,
/// how refusals are answered.
///
/// A profile is data: start from one and change its fields.
///
/// ```
/// use idempotency_tower::{Presence, Profile};
///
/// let mut profile = Profile::ietf();
/// profile.key_header = http::HeaderName::from_static("x-idempotency-key");
/// profile.presence = Presence::Required;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// The header that carries the key.
    pub key_header: HeaderName,
    /// Which keys are accepted.
    pub key_rule: KeyRule,
    /// Whether a request may come without a key.
    pub presence: Presence,
    /// The methods that keys are for; all others pass untouched, with a key or without.
    pub methods: Cow<'static, [Method]>,
    /// How long an answer is replayed; none: as the executor says.
    pub retention: Option<Retention>,
    /// Which statuses are final; none: as the executor says.
    pub result_policy: Option<ResultPolicy>,
    /// Which response headers are stored and replayed.
    pub stored_headers: StoredHeaders,
    /// How refusals are answered.
    pub statuses: Statuses,
    /// What answers say about themselves.
    pub markers: Markers,
}

/// Which keys a profile accepts. A key is printable ASCII in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRule {
    /// The longest key, in bytes; at most 255.
    pub max_bytes: usize,
}

/// Whether a request may come without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Without a key it passes untouched, and a repetition runs again.
    #[default]
    Optional,
    /// Without a key it is refused.
    Required,
}

/// The statuses of refusals that APIs disagree about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statuses {
    /// No key where one is required.
    pub key_missing: StatusCode,
    /// A key that cannot be used.
    pub key_invalid: StatusCode,
    /// The key stands for another request.
    pub mismatch: StatusCode,
    /// The first request is still running.
    pub in_progress: StatusCode,
    /// An earlier attempt may have happened, and taking over is refused.
    pub outcome_unknown: StatusCode,
    /// The request is done, and its answer was not kept.
    pub not_kept: StatusCode,
}

/// The headers by which answers tell about themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Markers {
    /// On replayed answers.
    pub replayed: Option<(HeaderName, HeaderValue)>,
    /// When the key can be used for something else, as an HTTP date; on answers that are stored and
    /// on replays.
    pub expires: Option<HeaderName>,
}

impl Profile {
    /// draft-ietf-httpapi-idempotency-key-header-07: `Idempotency-Key`, 400 for a missing or unusable
    /// key, 422 for a mismatch, 409 while the first request runs.
    ///
    /// Where the draft is silent: keys of at most 255 bytes on POST, PUT, PATCH and DELETE, optional;
    /// the executor's retention and policy; 409 for an unknown outcome and 410 for an answer that was
    /// not kept; the markers `Idempotent-Replayed: true` and `Idempotency-Expires`.
    pub fn ietf() -> Self {
        const KEYED: &[Method] = &[Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        Self {
            name: "ietf",
            key_header: HeaderName::from_static("idempotency-key"),
            key_rule: KeyRule { max_bytes: 255 },
            presence: Presence::Optional,
            methods: Cow::Borrowed(KEYED),
            retention: None,
            result_policy: None,
            stored_headers: StoredHeaders::default(),
            statuses: Statuses {
                key_missing: StatusCode::BAD_REQUEST,
                key_invalid: StatusCode::BAD_REQUEST,
                mismatch: StatusCode::UNPROCESSABLE_ENTITY,
                in_progress: StatusCode::CONFLICT,
                outcome_unknown: StatusCode::CONFLICT,
                not_kept: StatusCode::GONE,
            },
            markers: Markers {
                replayed: Some((
                    HeaderName::from_static("idempotent-replayed"),
                    HeaderValue::from_static("true"),
                )),
                expires: Some(HeaderName::from_static("idempotency-expires")),
            },
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::ietf()
    }
}
