//! What a profile is made of.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue, StatusCode};

/// Which keys a profile accepts. A key is printable ASCII in any case, and not blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRule {
    /// The longest key, in bytes; at most 255.
    pub max_bytes: usize,
    /// What it is written in.
    pub text: KeyText,
}

/// What keys are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyText {
    /// Any printable ASCII.
    #[default]
    Printable,
    /// A UUID of any version in the usual five groups. Compared byte for byte: in capitals it is another
    /// key.
    Uuid,
}

/// Whether a request may come without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Without a key it passes untouched, and a repetition runs again.
    #[default]
    Optional,
    /// Without a key it is refused.
    Required,
    /// Keys are not looked at: all requests pass untouched.
    Off,
}

/// What of the body makes another request of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ComparedBody {
    /// Its bytes.
    #[default]
    Bytes,
    /// Its JSON, whatever the order of members and the white space; its bytes when it is not JSON.
    Json,
    /// Nothing: the key alone says which operation is meant, within one method, path and query.
    Nothing,
}

/// The statuses of refusals that APIs disagree about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statuses {
    /// No key where one is required.
    pub key_missing: StatusCode,
    /// A key that cannot be used.
    pub key_invalid: StatusCode,
    /// The key stands for another request.
    pub mismatch: StatusCode,
    /// The first request is still running.
    pub in_progress: StatusCode,
    /// An earlier attempt may have happened, and taking over is refused.
    pub outcome_unknown: StatusCode,
    /// The request is done, and its answer was not kept. With a 2xx it is not a refusal: the answer is
    /// empty and marked as a replay.
    pub not_kept: StatusCode,
}

/// What a provider calls refusals: the member `code` of the problem details.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Codes {
    /// No key where one is required.
    pub key_missing: Option<Cow<'static, str>>,
    /// The key stands for another request.
    pub mismatch: Option<Cow<'static, str>>,
    /// The first request is still running.
    pub in_progress: Option<Cow<'static, str>>,
    /// The store does not answer.
    pub store_unavailable: Option<Cow<'static, str>>,
}

/// The headers by which answers tell about themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Markers {
    /// On replayed answers.
    pub replayed: Option<(HeaderName, HeaderValue)>,
    /// When the key can be used for something else, as an HTTP date; on answers that are stored and
    /// on replays.
    pub expires: Option<HeaderName>,
    /// The key, on the handler's answers and on replays.
    pub key: Option<HeaderName>,
    /// A header of the first answer (the first name; allow it in the stored headers) that replays
    /// carry under the second name, and not under its own: the id of the first request.
    pub original: Option<(HeaderName, HeaderName)>,
    /// On refusals after which the same request may be repeated under the same key.
    pub transient: Option<(HeaderName, HeaderValue)>,
}
