// its examples need the feature
#![cfg_attr(feature = "axum", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "axum"), doc = "Idempotency keys for HTTP services; see the README.")]

mod admission;
#[cfg(feature = "axum")]
mod attempt_extractor;
mod body;
mod capture;
mod config;
mod current_attempt;
mod detached;
mod exchange;
mod fingerprint;
mod flight;
mod grpc;
mod joined;
mod key;
mod layer;
mod profile;
mod refusal;
mod replay;
mod request_settings;
mod service;
mod stored_headers;
mod stored_response;
mod turned_away;

#[cfg(feature = "axum")]
pub use attempt_extractor::NoAttempt;
pub use body::HttpBody;
// the types of requests and responses, and the traits of layers and services, in the versions that this
// crate works with
pub use current_attempt::CurrentAttempt;
pub use http;
pub use http_body::Body;
pub use idempotency_core::{
    Answer, Attempt, Disposition, Idempotency, OnDuplicate, ResultPolicy, Retention, Scope,
    Takeover,
};
pub use key::{CustomKey, JsonPointer, JsonPointerError, KeySource};
pub use layer::IdempotencyLayer;
pub use profile::{
    Codes, ComparedBody, Fact, KeyRule, KeyText, Markers, Presence, Profile, Statuses,
};
pub use request_settings::RequestSettings;
pub use service::{IdempotencyService, ResponseFuture};
pub use stored_headers::StoredHeaders;
pub use stored_response::{StoredResponse, UnreadableResponse, stored_response};
pub use tower_layer::Layer;
pub use tower_service::Service;

/// The examples of the chapter on HTTP compile.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../docs/http.md")]
mod chapter_on_http {}
