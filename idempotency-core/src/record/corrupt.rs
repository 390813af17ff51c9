/// Why stored bytes are not a record that this release can read (C00, C35).
///
/// Whatever it is, it counts as neither absent nor expired, and is never overwritten or swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptRecord {
    /// Something else is kept at the record's place.
    #[error("not an idempotency record: another program may keep its data at this place")]
    Foreign,
    /// Written by a newer release.
    #[error("a record of format {found}, this release reads up to {known}: finish the upgrade")]
    FutureVersion {
        /// The format it names.
        found: u8,
        /// The newest format that this release reads.
        known: u8,
    },
    /// Cut short, or with bytes behind its end.
    #[error("a record of {found} bytes that should have {expected}")]
    Length {
        /// Its length.
        found: usize,
        /// What its header says.
        expected: usize,
    },
    /// Changed after it was written.
    #[error("a record whose checksum does not match: it was damaged or edited")]
    Checksum,
    /// A field has a value that no release writes.
    #[error("a record with an impossible {field}")]
    Field {
        /// Which field.
        field: &'static str,
    },
    /// A record of another key.
    #[error("the record of another key")]
    OtherKey,
}
