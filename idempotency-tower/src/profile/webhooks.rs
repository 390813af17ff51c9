//! Receivers of webhooks: a delivery that comes again is acknowledged with 2xx and does not run.

use std::{borrow::Cow, time::Duration};

use http::{HeaderName, Method, StatusCode};
use idempotency_core::{ResultPolicy, Retention};

use super::{ComparedBody, Fact, Facts, Presence, Profile};
use crate::{JsonPointer, KeySource};

/// Longer than the three days over which senders try again.
const A_WEEK: Duration = Duration::from_hours(7 * 24);

impl Profile {
    /// A receiver of [Standard Webhooks]: the id of the event in `webhook-id`, the same in each
    /// delivery.
    ///
    /// As for all webhooks: an id is required, of POST. A 2xx of the handler is final, and deliveries
    /// after it get it again without running; anything else, an error and a panic leave the event to the
    /// next delivery. While the first delivery runs others are answered with 409, so that the sender
    /// comes back. The body is not compared: senders may write it anew. Answers are kept for 7 days.
    /// Verify the signature in a layer outside, and name the endpoint as the scope:
    ///
    /// ```
    /// use idempotency_memory::MemoryStore;
    /// use idempotency_tower::{IdempotencyLayer, Profile, Scope};
    ///
    /// let layer = IdempotencyLayer::new(MemoryStore::new(), |_| Scope::new("payments events").ok())
    ///     .profile(Profile::standard_webhooks());
    /// # let _ = layer;
    /// ```
    ///
    /// [Standard Webhooks]: https://github.com/standard-webhooks/standard-webhooks
    pub fn standard_webhooks() -> Self {
        let facts = Facts {
            documented: &[Fact::KeySource, Fact::Methods],
            source: "https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
            notes: WEBHOOKS,
        };
        let webhook_id = HeaderName::from_static("webhook-id");
        Self::webhooks("standard_webhooks", KeySource::Header(webhook_id), facts)
    }

    /// A receiver of Stripe's events: the id is the member `id` of the body (`evt_…`). All else as
    /// [`Profile::standard_webhooks`].
    pub fn stripe_webhooks() -> Self {
        let facts = Facts {
            documented: &[Fact::KeySource, Fact::Methods],
            source: "https://docs.stripe.com/webhooks",
            notes: WEBHOOKS,
        };
        Self::webhooks("stripe_webhooks", KeySource::JsonPointer(JsonPointer::id()), facts)
    }

    /// A receiver of Twilio's webhooks: the id in `I-Twilio-Idempotency-Token`. All else as
    /// [`Profile::standard_webhooks`].
    pub fn twilio_webhooks() -> Self {
        let facts = Facts {
            documented: &[Fact::KeySource],
            source: "https://www.twilio.com/docs/usage/webhooks/webhooks-connection-overrides",
            notes: WEBHOOKS,
        };
        let token = HeaderName::from_static("i-twilio-idempotency-token");
        Self::webhooks("twilio_webhooks", KeySource::Header(token), facts)
    }

    fn webhooks(name: &'static str, source: KeySource, facts: Facts) -> Self {
        let mut profile = Self::defaults(name, facts);
        profile.key_source = source;
        profile.presence = Presence::Required;
        profile.methods = Cow::Borrowed(&[Method::POST]);
        profile.compared_body = ComparedBody::Nothing;
        profile.retention = Retention::new(A_WEEK).ok();
        profile.result_policy = Some(ResultPolicy::SuccessOnly);
        profile.statuses.not_kept = StatusCode::OK;
        profile
    }
}

const WEBHOOKS: &[&str] = &[
    "A delivery that was handled is acknowledged with the first 2xx and does not run. One that failed \
     runs again.",
    "The retention must be longer than the time over which the sender tries again.",
];
