use std::time::{Duration, SystemTime};

use bytes::Bytes;
use idempotency::Timestamp;
use serde::Serialize;

use crate::{
    charge::{Kind, Receipt},
    ledger::Effect,
};

/// Something that happened, as it is sent: each try sends the same bytes.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Follows from the effect, so that an effect never has two of them.
    pub(super) id: String,
    pub(super) body: Bytes,
}

#[derive(Serialize)]
struct Body {
    id: String,
    r#type: &'static str,
    timestamp: String,
    data: Receipt,
}

impl Event {
    /// `charge.succeeded`; other effects are told to nobody.
    pub(super) fn of(effect: &Effect, at: Timestamp) -> Option<serde_json::Result<Self>> {
        if effect.kind != Kind::Charge {
            return None;
        }
        let id = format!("evt_{}", effect.id.trim_start_matches("ch_"));
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(at.as_unix_millis());
        let timestamp = humantime::format_rfc3339_millis(at).to_string();
        let data = Receipt::from(effect.clone());
        let body = Body { id: id.clone(), r#type: "charge.succeeded", timestamp, data };
        Some(serde_json::to_vec(&body).map(|body| Self { id, body: body.into() }))
    }
}
