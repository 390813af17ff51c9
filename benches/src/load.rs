//! What all scenarios send: 39-byte keys, 300-byte responses.

use bytes::Bytes;
use idempotency::{
    AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, CompleteRequest, Fingerprint,
    FinishOutcome, IdempotencyKey, IdempotencyStore, Lease, Retention, Takeover,
};

pub(crate) const RESPONSE_BYTES: usize = 300;

/// One intended operation.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) key: IdempotencyKey,
    pub(crate) token: ClaimToken,
}

/// `count` intents that no other `series` has: a 3-byte scope and a 36-byte key, like a UUID.
pub(crate) fn intents(series: u32, count: u32) -> anyhow::Result<Vec<Intent>> {
    (0..count).map(|number| intent(series, number)).collect()
}

pub(crate) fn intent(series: u32, number: u32) -> anyhow::Result<Intent> {
    let key = format!("{series:08x}-0000-4000-8000-{number:012x}");
    Ok(Intent { key: IdempotencyKey::new("shp", key)?, token: ClaimToken::random()? })
}

pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::of_bytes("the same request for all")
}

pub(crate) fn response() -> Bytes {
    Bytes::from(vec![b'r'; RESPONSE_BYTES])
}

/// Claims and completes one intent.
pub(crate) async fn claim_and_complete(
    store: &dyn IdempotencyStore,
    intent: &Intent,
    fingerprint: Fingerprint,
    response: &Bytes,
) -> anyhow::Result<()> {
    claim(store, intent, fingerprint).await?;
    let complete = CompleteRequest {
        key: &intent.key,
        token: intent.token,
        attempt: AttemptNumber::FIRST,
        fingerprint,
        response: response.clone(),
        retention: Retention::DEFAULT,
    };
    let outcome = store.complete(complete).await?;
    anyhow::ensure!(outcome == FinishOutcome::Done, "{outcome:?}");
    Ok(())
}

/// Claims one intent.
pub(crate) async fn claim(
    store: &dyn IdempotencyStore,
    intent: &Intent,
    fingerprint: Fingerprint,
) -> anyhow::Result<()> {
    let claim = ClaimRequest {
        key: &intent.key,
        fingerprint,
        token: intent.token,
        lease: Lease::DEFAULT,
        retention: Retention::DEFAULT,
        takeover: Takeover::Allow,
    };
    let outcome = store.claim(claim).await?;
    anyhow::ensure!(matches!(outcome, ClaimOutcome::Acquired(_)), "{outcome:?}");
    Ok(())
}

/// Claims one intent again, as somebody else who gets the stored response.
pub(crate) async fn replay(store: &dyn IdempotencyStore, intent: &Intent) -> anyhow::Result<()> {
    let claim = ClaimRequest {
        key: &intent.key,
        fingerprint: fingerprint(),
        token: ClaimToken::random()?,
        lease: Lease::DEFAULT,
        retention: Retention::DEFAULT,
        takeover: Takeover::Allow,
    };
    let outcome = store.claim(claim).await?;
    anyhow::ensure!(matches!(outcome, ClaimOutcome::Replay(_)), "{outcome:?}");
    Ok(())
}
