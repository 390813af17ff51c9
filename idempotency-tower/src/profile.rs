#[cfg(test)]
mod docs;
mod parts;
mod providers;
mod webhooks;

use std::borrow::Cow;

use http::{HeaderName, HeaderValue, Method, StatusCode};
use idempotency_core::{ResultPolicy, Retention};

pub use self::parts::{Codes, ComparedBody, KeyRule, KeyText, Markers, Presence, Statuses};
use crate::{KeySource, StoredHeaders};

/// The HTTP side of idempotency as one API defines it: where the key stands, what is asked of it,
/// how refusals are answered.
///
/// A profile is data: start from one and change its fields. All of them side by side, with what each
/// provider documents and what is our default, are in the repository under `docs/profiles.md`.
///
/// ```
/// use idempotency_tower::{KeySource, Presence, Profile};
///
/// let mut profile = Profile::ietf();
/// profile.key_source = KeySource::Header(http::HeaderName::from_static("x-idempotency-key"));
/// profile.presence = Presence::Required;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// Where a request carries its key.
    pub key_source: KeySource,
    /// Which keys are accepted.
    pub key_rule: KeyRule,
    /// Whether a request may come without a key.
    pub presence: Presence,
    /// The methods that keys are for; all others pass untouched, with a key or without.
    pub methods: Cow<'static, [Method]>,
    /// What of the body makes another request.
    pub compared_body: ComparedBody,
    /// How long an answer is replayed; none: as the executor says.
    pub retention: Option<Retention>,
    /// Which statuses are final; none: as the executor says.
    pub result_policy: Option<ResultPolicy>,
    /// Statuses that are never final, whatever the policy says: a repetition runs at once.
    pub never_final: Cow<'static, [StatusCode]>,
    /// Which response headers are stored and replayed.
    pub stored_headers: StoredHeaders,
    /// How refusals are answered.
    pub statuses: Statuses,
    /// What refusals are called in the member `code` of their problem details.
    pub codes: Codes,
    /// What answers say about themselves.
    pub markers: Markers,
    facts: Facts,
}

/// What a provider documents of its profile. All else is our default.
#[derive(Clone, Copy, Debug)]
struct Facts {
    documented: &'static [Fact],
    source: &'static str,
    notes: &'static [&'static str],
}

/// One thing that a provider may document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fact {
    /// [`Profile::key_source`].
    KeySource,
    /// [`Profile::key_rule`].
    KeyRule,
    /// [`Profile::presence`].
    Presence,
    /// [`Profile::methods`].
    Methods,
    /// [`Profile::compared_body`].
    ComparedBody,
    /// [`Profile::retention`].
    Retention,
    /// What is stored: [`Profile::result_policy`] and [`Profile::never_final`].
    Stored,
    /// The answer to a request without a key.
    KeyMissing,
    /// The answer to a key that stands for another request.
    Mismatch,
    /// The answer while the first request runs.
    InProgress,
    /// The answer when the store is down.
    StoreUnavailable,
    /// [`Profile::markers`].
    Markers,
}

impl Profile {
    /// Our defaults, where nobody documents anything else.
    fn defaults(name: &'static str, facts: Facts) -> Self {
        const KEYED: &[Method] = &[Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        Self {
            name,
            key_source: KeySource::Header(HeaderName::from_static("idempotency-key")),
            key_rule: KeyRule { max_bytes: 255, text: KeyText::Printable },
            presence: Presence::Optional,
            methods: Cow::Borrowed(KEYED),
            compared_body: ComparedBody::Bytes,
            retention: None,
            result_policy: None,
            never_final: Cow::Borrowed(&[]),
            stored_headers: StoredHeaders::default(),
            statuses: Statuses {
                key_missing: StatusCode::BAD_REQUEST,
                key_invalid: StatusCode::BAD_REQUEST,
                mismatch: StatusCode::UNPROCESSABLE_ENTITY,
                in_progress: StatusCode::CONFLICT,
                outcome_unknown: StatusCode::CONFLICT,
                not_kept: StatusCode::GONE,
            },
            codes: Codes::default(),
            markers: Markers {
                replayed: Some((
                    HeaderName::from_static("idempotent-replayed"),
                    HeaderValue::from_static("true"),
                )),
                expires: Some(HeaderName::from_static("idempotency-expires")),
                key: None,
                original: None,
                transient: None,
            },
            facts,
        }
    }

    /// Whether the provider documents this of the profile as it came; all else is our default.
    pub fn documents(&self, fact: Fact) -> bool {
        self.facts.documented.contains(&fact)
    }

    /// Where the provider documents it.
    pub const fn source(&self) -> &'static str {
        self.facts.source
    }

    /// What the profile leaves out or adds, compared with the provider.
    pub const fn notes(&self) -> &'static [&'static str] {
        self.facts.notes
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::ietf()
    }
}
