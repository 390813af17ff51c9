//! What is settled before a claim: whose key it is, which key, and what request it stands for.

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, request::Parts};
use http_body::Body;
use http_body_util::BodyExt;
use idempotency_core::{Fingerprint, IdempotencyKey, Scope};

use crate::{
    HttpBody, KeySource, Presence,
    capture::Held,
    config::Config,
    fingerprint::fingerprint,
    flight::{Flight, Ticket},
    key::{self, KeyFault},
    refusal::Refusal,
};

/// A request of which all has come.
pub(crate) struct Arrived {
    /// In one place from the beginning: it is large, and futures move what they hold.
    pub(crate) head: Box<Parts>,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) ticket: Ticket,
}

/// What the key of a request is, and what it stands for. Fixed here, whatever inner layers do to the
/// request.
pub(crate) struct Identity {
    pub(crate) key: IdempotencyKey,
    pub(crate) fingerprint: Fingerprint,
}

/// A request that may claim its key, or, without an identity, one that turned out to have no key.
pub(crate) struct Admitted {
    pub(crate) arrived: Arrived,
    pub(crate) identity: Option<Identity>,
}

/// Key and principal come first, then the body: what is refused early costs little.
pub(crate) async fn admit<B>(
    config: &Config,
    flight: &Flight,
    head: Box<Parts>,
    body: B,
) -> Result<Admitted, Refusal>
where
    B: Body<Data = Bytes>,
{
    let early = Early::of(config, &head)?;
    let ticket = flight.board()?;
    let clock = config.idempotency.clock();
    let (body, trailers) = tokio::select! {
        biased;
        read = read(body, config.max_request_bytes) => read?,
        // what comes at the client's leisure is not waited for
        () = flight.is_draining() => return Err(Refusal::ShuttingDown),
        // a timer is made only when the body is not there at once
        () = async { clock.sleep(config.body_timeout).await } => {
            return Err(Refusal::BodyTooSlow { limit: config.body_timeout });
        }
    };
    let arrived = Arrived { head, body, trailers, ticket };
    let key = match early {
        Early::Key(key) => Some(key),
        Early::Scope(scope) => key_in_body(config, scope, &arrived)?,
    };
    let identity = key.map(|key| {
        let fingerprint = fingerprint(config, &arrived.head, &arrived.body);
        Identity { key, fingerprint }
    });
    Ok(Admitted { arrived, identity })
}

/// What is known before the body.
enum Early {
    Key(IdempotencyKey),
    /// The key is in the body, and this is whose it will be.
    Scope(Option<Scope>),
}

impl Early {
    fn of(config: &Config, head: &Parts) -> Result<Self, Refusal> {
        let profile = &config.profile;
        let scope = (config.scope_of)(head);
        let KeySource::Header(name) = &profile.key_source else {
            if scope.is_none() && profile.presence == Presence::Required {
                return Err(Refusal::NoPrincipal);
            }
            return Ok(Self::Scope(scope));
        };
        let scope = scope.ok_or(Refusal::NoPrincipal)?;
        let key = key::find_in_header(&head.headers, name, profile.key_rule)
            .map_err(Refusal::KeyInvalid)?
            .ok_or(Refusal::KeyMissing)?;
        identify(scope, &key).map(Self::Key)
    }
}

/// None: there is none, and none is required.
fn key_in_body(
    config: &Config,
    scope: Option<Scope>,
    arrived: &Arrived,
) -> Result<Option<IdempotencyKey>, Refusal> {
    let profile = &config.profile;
    let key = profile
        .key_source
        .find_in_body(profile.key_rule, &arrived.head, &arrived.body)
        .map_err(Refusal::KeyInvalid)?;
    match key {
        Some(key) => identify(scope.ok_or(Refusal::NoPrincipal)?, &key).map(Some),
        None if profile.presence == Presence::Required => Err(Refusal::KeyMissing),
        None => Ok(None),
    }
}

fn identify(scope: Scope, key: &str) -> Result<IdempotencyKey, Refusal> {
    // the rule may be laxer than what a key can be
    IdempotencyKey::new(scope, key)
        .map_err(|_| Refusal::KeyInvalid(KeyFault::TooLong { bytes: key.len(), max: 255 }))
}

/// Reads all of the body, and not more than `max` bytes.
async fn read<B>(body: B, max: usize) -> Result<(Bytes, Option<HeaderMap>), Refusal>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    if body.size_hint().lower() > max as u64 {
        return Err(Refusal::BodyTooLarge { max });
    }
    let (mut held, mut trailers) = (Held::default(), None);
    while let Some(frame) = body.frame().await {
        match frame.map_err(|_| Refusal::BodyUnreadable)?.into_data() {
            Ok(data) => held.push(data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        if held.len() > max {
            return Err(Refusal::BodyTooLarge { max });
        }
    }
    Ok((held.into_bytes(), trailers))
}

impl Arrived {
    /// The request for the inner service, and what counts it.
    pub(crate) fn into_request<B>(self) -> (http::Request<HttpBody<B>>, Ticket)
    where
        B: Body<Data = Bytes>,
    {
        let body = HttpBody::held(self.body, self.trailers);
        (http::Request::from_parts(*self.head, body), self.ticket)
    }
}
