/// Why a fingerprint cannot be made. Never contains the request's data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FingerprintError {
    /// The value could not be written as JSON.
    #[error("the value cannot be written as JSON")]
    Serialize(#[source] serde_json::Error),
    /// The text is not JSON.
    #[error("the text is not JSON: line {line}, column {column}")]
    NotJson {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, from 1.
        column: usize,
    },
    /// Readers disagree on which of the two counts, so such a text has no one meaning.
    #[error("an object names a member twice (at byte {at}): such JSON has no one meaning")]
    DuplicateMember {
        /// Offset of the second one.
        at: usize,
    },
    /// Nested deeper than the limit.
    #[error("the JSON is nested more than {limit} levels deep (at byte {at})")]
    TooDeep {
        /// The limit.
        limit: usize,
        /// Offset of the bracket that goes too deep.
        at: usize,
    },
}

impl FingerprintError {
    pub(super) const fn serialize(error: serde_json::Error) -> Self {
        Self::Serialize(error)
    }
}
