use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::StorageKey;

/// What an attribute of an item holds. Each has a name that can be chosen
/// ([`attribute`](crate::DynamoDbStoreBuilder::attribute)): reserved words will do, the store never
/// writes a name into an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Attribute {
    /// The format of the item, a number: `format`.
    Format,
    /// Where the record stands, a word: `state`.
    State,
    /// The token of the attempt, 16 bytes: `token`.
    Token,
    /// The number of the attempt: `attempt`.
    Attempt,
    /// The fingerprint of the request, 33 bytes: `fingerprint`.
    Fingerprint,
    /// The retention in milliseconds: `retention_ms`.
    RetentionMs,
    /// The retention in seconds, rounded up: `retention_s`. An update cannot divide.
    RetentionS,
    /// When attempt 1 began, in milliseconds since the Unix epoch: `first_claimed_at_ms`.
    FirstClaimedAt,
    /// When this attempt began, in milliseconds since the Unix epoch: `claimed_at_ms`.
    ClaimedAt,
    /// The end of the lease, in milliseconds since the Unix epoch: `lease_until_ms`.
    LeaseUntil,
    /// When it was released or completed, in milliseconds since the Unix epoch: `ended_at_ms`.
    EndedAt,
    /// The last moment at which the record counts, in milliseconds since the Unix epoch:
    /// `expires_at_ms`.
    ExpiresAt,
    /// When the service may delete the item, in seconds since the Unix epoch: `delete_after_s`. The
    /// table's time to live is set on this one.
    DeleteAfter,
    /// The number of the last renewal: `sequence`.
    Sequence,
    /// What the attempt left for the next one, bytes: `checkpoint`.
    Checkpoint,
    /// The stored answer, bytes: `response`.
    Response,
    /// The partition of the list index, while the record has no outcome yet: `unsettled`.
    Unsettled,
    /// True where the answer was stored by a transaction of the application's: `joined`.
    Joined,
}

impl Attribute {
    pub(crate) const ALL: [Self; 18] = [
        Self::Format,
        Self::State,
        Self::Token,
        Self::Attempt,
        Self::Fingerprint,
        Self::RetentionMs,
        Self::RetentionS,
        Self::FirstClaimedAt,
        Self::ClaimedAt,
        Self::LeaseUntil,
        Self::EndedAt,
        Self::ExpiresAt,
        Self::DeleteAfter,
        Self::Sequence,
        Self::Checkpoint,
        Self::Response,
        Self::Unsettled,
        Self::Joined,
    ];

    /// Its name unless another one is chosen; with a `#` before it, its name in expressions.
    pub(crate) const fn default_name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::State => "state",
            Self::Token => "token",
            Self::Attempt => "attempt",
            Self::Fingerprint => "fingerprint",
            Self::RetentionMs => "retention_ms",
            Self::RetentionS => "retention_s",
            Self::FirstClaimedAt => "first_claimed_at_ms",
            Self::ClaimedAt => "claimed_at_ms",
            Self::LeaseUntil => "lease_until_ms",
            Self::EndedAt => "ended_at_ms",
            Self::ExpiresAt => "expires_at_ms",
            Self::DeleteAfter => "delete_after_s",
            Self::Sequence => "sequence",
            Self::Checkpoint => "checkpoint",
            Self::Response => "response",
            Self::Unsettled => "unsettled",
            Self::Joined => "joined",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// A name that the service would refuse, or that is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Of a wrong length, or with characters that are not allowed.
    #[error("the {what} {name:?} is refused: use {rule}")]
    Refused {
        /// What it should name.
        what: &'static str,
        /// Its beginning.
        name: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// Two things would have this name.
    #[error("the attribute name {name:?} is refused: another attribute has it already")]
    Taken {
        /// The name.
        name: String,
    },
}

/// Where in a table the records are, and what their attributes are called.
#[derive(Clone)]
pub(crate) struct Layout {
    pub(crate) table: String,
    pub(crate) partition_key: String,
    pub(crate) sort_key: Option<SortKey>,
    names: [String; Attribute::ALL.len()],
    /// The name of the list index, where the table has one.
    pub(crate) index: Option<String>,
}

/// The second half of a composite key: the same value for every record, so that the records spread
/// over the partitions and stay apart from other items of the table.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    pub(crate) name: String,
    pub(crate) value: String,
}

const ATTRIBUTE_RULE: &str = "1 to 255 bytes";
const TABLE_RULE: &str = "3 to 255 characters out of a-z A-Z 0-9 _ . -, or the ARN of a table";

impl Layout {
    pub(crate) fn new(table: &str) -> Result<Self, NameError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        let is_arn = table.starts_with("arn:") && table.len() <= 1_024;
        if !is_arn && (!(3..=255).contains(&table.len()) || !table.bytes().all(plain)) {
            return Err(refused("table name", table, TABLE_RULE));
        }
        Ok(Self {
            table: table.to_owned(),
            partition_key: "pk".to_owned(),
            sort_key: None,
            names: Attribute::ALL.map(|attribute| attribute.default_name().to_owned()),
            index: None,
        })
    }

    pub(crate) fn set_partition_key(&mut self, name: &str) -> Result<(), NameError> {
        self.check(name, &self.partition_key)?;
        name.clone_into(&mut self.partition_key);
        Ok(())
    }

    pub(crate) fn set_sort_key(&mut self, name: &str, value: &str) -> Result<(), NameError> {
        let old = self.sort_key.as_ref().map_or("", |key| key.name.as_str());
        self.check(name, old)?;
        if value.is_empty() || value.len() > 1_024 {
            return Err(refused("value of the sort key", value, "1 to 1 024 bytes"));
        }
        self.sort_key = Some(SortKey { name: name.to_owned(), value: value.to_owned() });
        Ok(())
    }

    pub(crate) fn set_name(&mut self, attribute: Attribute, name: &str) -> Result<(), NameError> {
        self.check(name, self.name(attribute))?;
        if let Some(place) = self.names.get_mut(attribute.index()) {
            name.clone_into(place);
        }
        Ok(())
    }

    pub(crate) fn set_index(&mut self, name: &str) -> Result<(), NameError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if !(3..=255).contains(&name.len()) || !name.bytes().all(plain) {
            let rule = "3 to 255 characters out of a-z A-Z 0-9 _ . -";
            return Err(refused("index name", name, rule));
        }
        self.index = Some(name.to_owned());
        Ok(())
    }

    /// `old` is the name that is given up.
    fn check(&self, name: &str, old: &str) -> Result<(), NameError> {
        if name.is_empty() || name.len() > 255 {
            return Err(refused("attribute name", name, ATTRIBUTE_RULE));
        }
        if name != old && self.all_names().any(|taken| taken == name) {
            return Err(NameError::Taken { name: name.to_owned() });
        }
        Ok(())
    }

    fn all_names(&self) -> impl Iterator<Item = &str> {
        let keys = self.sort_key.iter().map(|key| &key.name).chain([&self.partition_key]);
        keys.chain(&self.names).map(String::as_str)
    }

    pub(crate) fn name(&self, attribute: Attribute) -> &str {
        self.names.get(attribute.index()).map_or(attribute.default_name(), String::as_str)
    }

    /// The primary key of the record at `place`.
    pub(crate) fn key(&self, place: &StorageKey) -> impl Iterator<Item = (String, AttributeValue)> {
        let partition = (self.partition_key.clone(), AttributeValue::S(place.as_str().to_owned()));
        let sort = self
            .sort_key
            .as_ref()
            .map(|key| (key.name.clone(), AttributeValue::S(key.value.clone())));
        [partition].into_iter().chain(sort)
    }

    /// The longest that a primary key can be in a namespace, with its names, in bytes.
    pub(crate) fn key_bytes(&self, longest_place: usize) -> usize {
        let sort = self.sort_key.as_ref().map_or(0, |key| key.name.len() + key.value.len());
        self.partition_key.len() + longest_place + sort
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("table", &self.table)
            .field("partition_key", &self.partition_key)
            .field("sort_key", &self.sort_key)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

fn refused(what: &'static str, name: &str, rule: &'static str) -> NameError {
    NameError::Refused { what, name: name.chars().take(64).collect(), rule }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_for_one_thing() {
        let mut layout = Layout::new("payments").unwrap();
        layout.set_partition_key("key").unwrap();
        layout.set_sort_key("data", "idempotency").unwrap();
        layout.set_name(Attribute::State, "status").unwrap();
        layout.set_name(Attribute::State, "status").unwrap();
        for taken in ["key", "data", "format"] {
            let error = layout.set_name(Attribute::State, taken).unwrap_err();
            assert_eq!(error, NameError::Taken { name: taken.to_owned() });
        }
        // a name that was given up is free again
        layout.set_name(Attribute::Token, "state").unwrap();
        assert!(layout.set_name(Attribute::Token, &"n".repeat(256)).is_err());
        for table in ["ab", "a b c", "", "ärger", &"t".repeat(256)] {
            assert!(Layout::new(table).is_err(), "{table}");
        }
        assert!(Layout::new("arn:aws:dynamodb:eu-west-1:123456789012:table/payments").is_ok());
    }

    #[test]
    fn names_are_listed_in_the_order_of_their_indices() {
        for (index, attribute) in Attribute::ALL.into_iter().enumerate() {
            assert_eq!(attribute.index(), index);
        }
    }
}
