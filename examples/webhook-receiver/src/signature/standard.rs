//! Standard Webhooks: `ID.TIMESTAMP.BODY`, signatures in base64 after `v1,`, with blanks between them.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::HeaderMap;

use super::{Signed, line};

pub(super) fn read(headers: &HeaderMap) -> Option<Signed<'_>> {
    let id = line(headers, "webhook-id")?;
    let timestamp = line(headers, "webhook-timestamp")?;
    let signatures = line(headers, "webhook-signature")?.split(' ');
    let signatures = signatures.filter_map(|one| one.strip_prefix("v1,"));
    let signatures: Vec<_> =
        signatures.filter_map(|text| BASE64_STANDARD.decode(text).ok()).collect();
    let prefix = format!("{id}.{timestamp}.");
    (!signatures.is_empty()).then_some(Signed { timestamp, prefix, signatures })
}
