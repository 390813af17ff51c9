//! The binary form of a composite value: how many fields, and of each its type, its length and its bytes.

use sqlx::{Row, postgres::PgRow, types::Uuid};

/// The fields of a record, from the first to the last.
#[derive(Debug)]
pub(crate) struct Fields<'r> {
    left: i32,
    rest: &'r [u8],
}

impl<'r> Fields<'r> {
    /// Of the first column of a row: a record, or the bytes of one.
    pub(crate) fn of(row: &'r PgRow) -> Result<Self, sqlx::Error> {
        let bytes = row.try_get_raw(0)?.as_bytes().map_err(sqlx::Error::Decode)?;
        let mut fields = Self { left: 0, rest: bytes };
        fields.left = fields.number()?;
        Ok(fields)
    }

    /// Whether there are none left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.left <= 0
    }

    /// The next field as it came; none where it is null.
    pub(crate) fn bytes(&mut self) -> Result<Option<&'r [u8]>, sqlx::Error> {
        self.left = self.left.checked_sub(1).filter(|left| *left >= 0).ok_or_else(malformed)?;
        let _kind = self.number()?;
        let length = self.number()?;
        // below zero: null
        let Ok(length) = usize::try_from(length) else {
            return Ok(None);
        };
        let (field, rest) = self.rest.split_at_checked(length).ok_or_else(malformed)?;
        self.rest = rest;
        Ok(Some(field))
    }

    pub(crate) fn text(&mut self) -> Result<Option<&'r str>, sqlx::Error> {
        let text = self.bytes()?.map(std::str::from_utf8).transpose();
        text.map_err(|source| sqlx::Error::Decode(source.into()))
    }

    pub(crate) fn int2(&mut self) -> Result<Option<i16>, sqlx::Error> {
        Ok(self.fixed()?.map(i16::from_be_bytes))
    }

    pub(crate) fn int8(&mut self) -> Result<Option<i64>, sqlx::Error> {
        Ok(self.fixed()?.map(i64::from_be_bytes))
    }

    pub(crate) fn uuid(&mut self) -> Result<Option<Uuid>, sqlx::Error> {
        Ok(self.fixed()?.map(Uuid::from_bytes))
    }

    fn fixed<const N: usize>(&mut self) -> Result<Option<[u8; N]>, sqlx::Error> {
        let bytes = self.bytes()?.map(<[u8; N]>::try_from).transpose();
        bytes.map_err(|source| sqlx::Error::Decode(source.into()))
    }

    fn number(&mut self) -> Result<i32, sqlx::Error> {
        let (number, rest) = self.rest.split_first_chunk().ok_or_else(malformed)?;
        self.rest = rest;
        Ok(i32::from_be_bytes(*number))
    }
}

/// A field that may not be null.
pub(crate) fn needed<T>(field: Option<T>) -> Result<T, sqlx::Error> {
    field.ok_or_else(malformed)
}

fn malformed() -> sqlx::Error {
    sqlx::Error::Decode("the answer is not a record of ours".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(count: i32, parts: &[(i32, &[u8])]) -> Vec<u8> {
        let mut bytes = count.to_be_bytes().to_vec();
        for (length, part) in parts {
            bytes.extend([0; 4]);
            bytes.extend(length.to_be_bytes());
            bytes.extend(*part);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Fields<'_> {
        let mut fields = Fields { left: 0, rest: bytes };
        fields.left = fields.number().unwrap();
        fields
    }

    #[test]
    fn a_record_is_read_field_by_field() {
        let bytes = fields(4, &[(2, &[1, 2]), (-1, &[]), (1, b"k"), (8, &[0; 8])]);
        let mut fields = read(&bytes);
        assert_eq!(fields.int2().unwrap(), Some(0x0102));
        assert_eq!(fields.bytes().unwrap(), None);
        assert_eq!(fields.text().unwrap(), Some("k"));
        assert!(!fields.is_empty());
        assert_eq!(fields.int8().unwrap(), Some(0));
        assert!(fields.is_empty());
        assert!(fields.bytes().is_err());
    }

    #[test]
    fn a_record_that_is_cut_short_or_of_other_types_is_an_error() {
        let whole = fields(1, &[(2, &[1, 2])]);
        for length in 4..whole.len() {
            assert!(read(&whole[..length]).int2().is_err(), "{length}");
        }
        assert!(read(&whole).int8().is_err());
        assert!(read(&fields(1, &[(1, &[0xff])])).text().is_err());
        assert!(read(&fields(-1, &[])).is_empty());
    }
}
