use serde::Deserialize;

use crate::signature::Scheme;

/// What is needed of an event, whoever sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// `charge.succeeded` and its like.
    pub(crate) name: String,
    /// What it happened to.
    pub(crate) object: String,
}

#[derive(Deserialize)]
struct Body<D> {
    r#type: String,
    data: D,
}

#[derive(Deserialize)]
struct Object {
    id: String,
}

#[derive(Deserialize)]
struct Wrapped {
    object: Object,
}

impl Event {
    /// Reads the body; Stripe's has the object one level deeper.
    pub(crate) fn read(scheme: Scheme, body: &[u8]) -> serde_json::Result<Self> {
        let (name, object) = match scheme {
            Scheme::Standard => {
                let Body::<Object> { r#type, data } = serde_json::from_slice(body)?;
                (r#type, data)
            }
            Scheme::Stripe => {
                let Body::<Wrapped> { r#type, data } = serde_json::from_slice(body)?;
                (r#type, data.object)
            }
        };
        Ok(Self { name, object: object.id })
    }
}
