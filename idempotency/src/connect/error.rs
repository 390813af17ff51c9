use std::borrow::Cow;

use idempotency_core::StoreError;

/// Why [`connect`](crate::connect()) gave no store. Shows no value out of the URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Not a URL at all.
    #[error(
        "the store URL cannot be read: {reason}; a store URL begins with a scheme: `memory:`, `postgres:`, `redis:`, `dynamodb:`"
    )]
    NotAUrl {
        /// What the parser says.
        reason: url::ParseError,
    },
    /// No store of this release has this scheme.
    #[error(
        "the store URL's scheme `{scheme}` is not known; known are: `dynamodb:`, `memory:`, `postgres:`, `redis:`, \
         `rediss:`, `redis+unix:`, `redis+cluster:`, `redis+sentinel:`, `rediss+cluster:`, `rediss+sentinel:`"
    )]
    UnknownScheme {
        /// The scheme.
        scheme: String,
    },
    /// The store is known, but was not built in.
    #[error(
        "a `{scheme}` store needs the feature `{feature}` of the crate `idempotency`, which is off"
    )]
    MissingFeature {
        /// The scheme.
        scheme: &'static str,
        /// The feature to switch on.
        feature: &'static str,
    },
    /// A part of the URL is wrong.
    #[error("the store URL's {part} is refused: {problem}; allowed: {allowed}")]
    Part {
        /// Which part: the host, the path, a parameter.
        part: Cow<'static, str>,
        /// What is wrong with it.
        problem: &'static str,
        /// What is allowed in its place.
        allowed: &'static str,
    },
    /// The store could not be reached or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}
