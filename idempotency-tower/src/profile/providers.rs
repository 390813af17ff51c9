//! One function a provider. Where a provider is silent the function says nothing, and our default holds.

use std::{borrow::Cow, time::Duration};

use http::{HeaderName, HeaderValue, Method, StatusCode};
use idempotency_core::{ResultPolicy, Retention};

use super::{Fact, Facts, KeyText, Presence, Profile};
use crate::{KeySource, StoredHeaders};

const POST: &[Method] = &[Method::POST];

fn hours(hours: u64) -> Option<Retention> {
    Retention::new(Duration::from_hours(hours)).ok()
}

const fn header(name: &'static str) -> KeySource {
    KeySource::Header(HeaderName::from_static(name))
}

impl Profile {
    /// draft-ietf-httpapi-idempotency-key-header-07: `Idempotency-Key`, 400 for a missing or unusable
    /// key, 422 for a mismatch, 409 while the first request runs.
    ///
    /// Where the draft is silent: keys of at most 255 bytes on POST, PUT, PATCH and DELETE, optional;
    /// the executor's retention and policy; 409 for an unknown outcome and 410 for an answer that was
    /// not kept; the markers `Idempotent-Replayed: true` and `Idempotency-Expires`.
    pub fn ietf() -> Self {
        let facts = Facts {
            documented: &[Fact::KeySource, Fact::KeyMissing, Fact::Mismatch, Fact::InProgress],
            source: "https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/",
            notes: &[
                "The draft writes the key as a structured-field string; bare keys are accepted too, and are \
                 the same keys.",
                "The draft stores successes and errors alike. Ours leaves out those that pass by themselves.",
            ],
        };
        Self::defaults("ietf", facts)
    }

    /// Stripe's v1 API: POST, keys of at most 255 bytes, kept for 24 h, 400 for a mismatch, all answers
    /// stored, server errors too, other than 400, 401, 409 and 429.
    pub fn stripe() -> Self {
        let facts = Facts {
            documented: &[
                Fact::KeySource,
                Fact::KeyRule,
                Fact::Methods,
                Fact::Retention,
                Fact::Mismatch,
                Fact::InProgress,
                Fact::Stored,
                Fact::Markers,
            ],
            source: "https://docs.stripe.com/api/idempotent_requests",
            notes: &[
                "Stripe stores nothing of a request that fails validation, before its endpoint begins: here \
                 the status 400 stands for that, and a handler can say so with `Disposition::NotStarted`.",
                "`Original-Request` on replays is the `Request-Id` of the first answer, when the handler \
                 sets one.",
                "Problem details with the member `code`, in the place of Stripe's error object.",
            ],
        };
        let mut profile = Self::defaults("stripe", facts);
        profile.methods = Cow::Borrowed(POST);
        profile.retention = hours(24);
        profile.result_policy = Some(ResultPolicy::All);
        profile.never_final = Cow::Borrowed(&[
            StatusCode::BAD_REQUEST,
            StatusCode::UNAUTHORIZED,
            StatusCode::CONFLICT,
            StatusCode::TOO_MANY_REQUESTS,
        ]);
        profile.statuses.mismatch = StatusCode::BAD_REQUEST;
        profile.codes.mismatch = Some("idempotency_error".into());
        profile.codes.in_progress = Some("idempotency_key_in_use".into());
        let request_id = HeaderName::from_static("request-id");
        profile.stored_headers = StoredHeaders::default().allow(request_id.clone());
        profile.markers.original = Some((request_id, HeaderName::from_static("original-request")));
        profile.markers.key = Some(HeaderName::from_static("idempotency-key"));
        profile
    }

    /// Adyen: POST, keys of at most 64 bytes, kept for 7 days, code 704 while the first request runs, 703
    /// when the store is down, the key on the answers.
    pub fn adyen() -> Self {
        let facts = Facts {
            documented: &[
                Fact::KeySource,
                Fact::KeyRule,
                Fact::Methods,
                Fact::Retention,
                Fact::InProgress,
                Fact::StoreUnavailable,
                Fact::Markers,
            ],
            source: "https://docs.adyen.com/development-resources/api-idempotency",
            notes: &["Adyen answers 409 or 422 while the first request runs; here it is 409."],
        };
        let mut profile = Self::defaults("adyen", facts);
        profile.key_rule.max_bytes = 64;
        profile.methods = Cow::Borrowed(POST);
        profile.retention = hours(7 * 24);
        profile.codes.in_progress = Some("704".into());
        profile.codes.store_unavailable = Some("703".into());
        profile.markers.replayed = None;
        profile.markers.key = Some(HeaderName::from_static("idempotency-key"));
        profile.markers.transient =
            Some((HeaderName::from_static("transient-error"), HeaderValue::from_static("true")));
        profile
    }

    /// Mollie: kept for 1 h, `Idempotent-Replayed` on replays.
    pub fn mollie() -> Self {
        let facts = Facts {
            documented: &[Fact::KeySource, Fact::Retention, Fact::Markers],
            source: "https://docs.mollie.com/reference/api-idempotency",
            notes: &[],
        };
        let mut profile = Self::defaults("mollie", facts);
        profile.retention = hours(1);
        profile
    }

    /// Bridge: a UUID, required on every POST, kept for 24 h.
    pub fn bridge() -> Self {
        let facts = Facts {
            documented: &[
                Fact::KeySource,
                Fact::KeyRule,
                Fact::Presence,
                Fact::Methods,
                Fact::Retention,
            ],
            source: "https://apidocs.bridge.xyz/api-reference/introduction/idempotence",
            notes: &[
                "Bridge answers a key after its 24 h with 422. Here it is forgotten, and runs again.",
                "Bridge refuses another request under the same key; with which status is not documented.",
            ],
        };
        let mut profile = Self::defaults("bridge", facts);
        profile.key_rule.text = KeyText::Uuid;
        profile.presence = Presence::Required;
        profile.methods = Cow::Borrowed(POST);
        profile.retention = hours(24);
        profile
    }

    /// AWS, as EC2 has it: the parameter `ClientToken` of the body, at most 64 bytes, kept for 24 h, 400
    /// for a mismatch, only successes stored.
    pub fn aws() -> Self {
        let facts = Facts {
            documented: &[
                Fact::KeySource,
                Fact::KeyRule,
                Fact::Retention,
                Fact::Mismatch,
                Fact::Stored,
            ],
            source: "https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html",
            notes: &[
                "A field of a form or a member of a JSON object. The query string is not looked at.",
                "AWS answers with the state of now; here the first answer is repeated byte for byte.",
            ],
        };
        let mut profile = Self::defaults("aws", facts);
        profile.key_source = KeySource::BodyParameter("ClientToken".into());
        profile.key_rule.max_bytes = 64;
        profile.methods = Cow::Borrowed(POST);
        profile.retention = hours(24);
        profile.result_policy = Some(ResultPolicy::SuccessOnly);
        profile.statuses.mismatch = StatusCode::BAD_REQUEST;
        profile.codes.mismatch = Some("IdempotentParameterMismatch".into());
        profile
    }

    /// Open Banking UK: `x-idempotency-key`, required, at most 40 bytes, kept for 24 h, only successes
    /// stored.
    pub fn obie() -> Self {
        let facts = Facts {
            documented: &[
                Fact::KeySource,
                Fact::KeyRule,
                Fact::Presence,
                Fact::Retention,
                Fact::Stored,
            ],
            source: "https://openbankinguk.github.io/read-write-api-site3/",
            notes: &[
                "Another request under the same key must not change the resource and may be treated as \
                 fraud; the status is not documented.",
            ],
        };
        let mut profile = Self::defaults("obie", facts);
        profile.key_source = header("x-idempotency-key");
        profile.key_rule.max_bytes = 40;
        profile.presence = Presence::Required;
        profile.retention = hours(24);
        profile.result_policy = Some(ResultPolicy::SuccessOnly);
        profile
    }

    /// Berlin Group `NextGenPSD2`: `X-Request-ID`, a UUID, required.
    pub fn berlin_group() -> Self {
        let facts = Facts {
            documented: &[Fact::KeySource, Fact::KeyRule, Fact::Presence],
            source: "https://www.berlin-group.org/",
            notes: &[
                "The id is for tracing; whether it also makes a request unique is the bank's choice.",
            ],
        };
        let mut profile = Self::defaults("berlin_group", facts);
        profile.key_source = header("x-request-id");
        profile.key_rule.text = KeyText::Uuid;
        profile.presence = Presence::Required;
        profile
    }

    /// STET PSD2: `X-Request-ID`.
    pub fn stet() -> Self {
        let facts = Facts {
            documented: &[Fact::KeySource],
            source: "https://www.stet.eu/en/psd2/",
            notes: &[
                "The member `paymentInformationId` of the body is another candidate for the key.",
            ],
        };
        let mut profile = Self::defaults("stet", facts);
        profile.key_source = header("x-request-id");
        profile
    }

    /// All profiles, those of providers first.
    pub fn all() -> Vec<Self> {
        vec![
            Self::ietf(),
            Self::stripe(),
            Self::adyen(),
            Self::mollie(),
            Self::bridge(),
            Self::aws(),
            Self::obie(),
            Self::berlin_group(),
            Self::stet(),
            Self::standard_webhooks(),
            Self::stripe_webhooks(),
            Self::twilio_webhooks(),
        ]
    }
}
