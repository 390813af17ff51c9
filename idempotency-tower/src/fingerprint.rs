//! What makes a request another one.

use bytes::Bytes;
use http::{Uri, request::Parts};
use idempotency_core::Fingerprint;

use crate::{ComparedBody, config::Config};

pub(crate) fn fingerprint(config: &Config, parts: &Parts, body: &Bytes) -> Fingerprint {
    let uri = original_uri(parts);
    let mut builder =
        Fingerprint::builder().part("method", parts.method.as_str()).part("path", uri.path());
    if let Some(query) = uri.query() {
        builder = builder.part("query", query);
    }
    for name in &config.fingerprint_headers {
        for value in parts.headers.get_all(name) {
            builder = builder.part(name.as_str(), value);
        }
    }
    let builder = match config.profile.compared_body {
        ComparedBody::Nothing => builder,
        ComparedBody::Bytes => builder.part("body", body),
        ComparedBody::Json => match builder.clone().json("body", body) {
            Ok(builder) => builder,
            Err(_) => builder.part("body", body),
        },
    };
    builder.finish()
}

/// As the client sent it: a nested router strips what it was nested under, and two of them must not
/// share an answer.
#[cfg(feature = "axum")]
fn original_uri(parts: &Parts) -> &Uri {
    match parts.extensions.get::<axum::extract::OriginalUri>() {
        Some(original) => &original.0,
        None => &parts.uri,
    }
}

#[cfg(not(feature = "axum"))]
const fn original_uri(parts: &Parts) -> &Uri {
    &parts.uri
}
