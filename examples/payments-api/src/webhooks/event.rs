use std::time::{Duration, SystemTime};

use bytes::Bytes;
use idempotency::Timestamp;
use serde_json::json;

use crate::{
    charge::{Kind, Receipt},
    ledger::Effect,
};

/// Something that happened, as it is sent: each try sends the same bytes.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Follows from the effect, so that an effect never has two of them.
    pub(super) id: String,
    pub(super) body: Bytes,
}

impl Event {
    /// `charge.succeeded`; other effects are told to nobody.
    pub(crate) fn of(effect: &Effect, at: Timestamp) -> Option<Self> {
        if effect.kind != Kind::Charge {
            return None;
        }
        let id = format!("evt_{}", effect.id.trim_start_matches("ch_"));
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(at.as_unix_millis());
        let body = json!({
            "id": id,
            "type": "charge.succeeded",
            "timestamp": humantime::format_rfc3339_millis(at).to_string(),
            "data": Receipt::from(effect.clone()),
        });
        Some(Self { id, body: body.to_string().into() })
    }
}
