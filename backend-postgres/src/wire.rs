use std::time::Duration;

use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimToken, CorruptRecord, ErrorKind, Fingerprint, Operation, Record,
    ReleaseReason, Retention, State, StorageKey, StoreError, Timestamp,
};
use sqlx::{postgres::PgRow, types::Uuid};

use crate::{
    error,
    record::{Fields, needed},
};

/// The format of the rows that this release writes and reads.
const FORMAT: i16 = 1;

/// What a function did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing was written; the row is what was seen.
    Seen,
    /// It was written.
    Written,
    /// It was written where no record was.
    WrittenAnew,
    /// Somebody's transaction holds the row.
    Locked,
}

/// One reply, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) verdict: Verdict,
    /// The moment of the decision.
    pub(crate) at: Timestamp,
    /// The row, where there is one and the reply carries all of it.
    pub(crate) record: Option<Result<Record, CorruptRecord>>,
    /// The end of the lease, where there is one.
    pub(crate) lease_until: Option<Timestamp>,
}

impl Reply {
    /// Reads a reply to a question about `place`.
    ///
    /// # Errors
    /// `Corrupt` when it names another key (C35), `Conflict` when the function gave up.
    pub(crate) fn read(
        operation: Operation,
        row: &PgRow,
        place: &StorageKey,
    ) -> Result<Self, StoreError> {
        let (key, reply) = Self::read_any(operation, row)?;
        if key.is_some_and(|key| key != place.as_str()) {
            return Err(StoreError::corrupt(operation, CorruptRecord::OtherKey));
        }
        Ok(reply)
    }

    /// Reads a reply whose key the caller looks at: none when there is no row.
    pub(crate) fn read_any(
        operation: Operation,
        row: &PgRow,
    ) -> Result<(Option<&str>, Self), StoreError> {
        let broken = |source| error::classify(operation, source);
        let mut fields = Fields::of(row).map_err(broken)?;
        let verdict = match fields.int2().and_then(needed).map_err(broken)? {
            0 => Verdict::Seen,
            1 => Verdict::Written,
            2 => Verdict::WrittenAnew,
            3 => Verdict::Locked,
            _ => return Err(error::conflict(operation)),
        };
        let at = moment(&mut fields).map_err(broken)?.and_then(Result::ok).ok_or_else(|| {
            StoreError::new(operation, ErrorKind::Unexpected, "a reply without its moment")
        })?;
        let key = fields.text().map_err(broken)?;
        let lease_until =
            if fields.is_empty() { None } else { moment(&mut fields).map_err(broken)? };
        let record = record(&mut fields, lease_until).map_err(broken)?;
        let lease_until = lease_until.and_then(Result::ok);
        Ok((key, Self { verdict, at, record, lease_until }))
    }

    /// The record that was seen, or none.
    ///
    /// # Errors
    /// It cannot be read (C00).
    pub(crate) fn record(&self, operation: Operation) -> Result<Option<&Record>, StoreError> {
        match &self.record {
            None => Ok(None),
            Some(Ok(record)) => Ok(Some(record)),
            Some(Err(cause)) => Err(StoreError::corrupt(operation, *cause)),
        }
    }
}

/// The rest of the row of a reply, in the order of [`ROW`](crate::sql::ROW). None where there is no row,
/// or the reply carries less of it.
fn record(
    fields: &mut Fields<'_>,
    lease_until: Moment,
) -> Result<Option<Result<Record, CorruptRecord>>, sqlx::Error> {
    if fields.is_empty() {
        return Ok(None);
    }
    let Some(format) = fields.int2()? else {
        return Ok(None);
    };
    if format != FORMAT {
        let cause = u8::try_from(format).ok().filter(|format| *format > 0).map_or(
            CorruptRecord::Foreign,
            |found| CorruptRecord::FutureVersion { found, known: 1 },
        );
        return Ok(Some(Err(cause)));
    }
    let columns = Columns {
        state: needed(fields.int2()?)?,
        fingerprint: needed(fields.bytes()?)?,
        token: needed(fields.uuid()?)?,
        attempt: needed(fields.int8()?)?,
        retention_ms: needed(fields.int8()?)?,
        first_claimed_at: moment(fields)?,
        claimed_at: moment(fields)?,
        expires_at: moment(fields)?,
        lease_until,
        ended_at: moment(fields)?,
        sequence: needed(fields.int8()?)?,
        checkpoint: fields.bytes()?.map(Bytes::copy_from_slice),
        response: fields.bytes()?.map(Bytes::copy_from_slice),
    };
    Ok(Some(columns.into_record()))
}

type Moment = Option<Result<Timestamp, CorruptRecord>>;

/// The columns of a row of format 1.
struct Columns<'a> {
    state: i16,
    fingerprint: &'a [u8],
    token: Uuid,
    attempt: i64,
    retention_ms: i64,
    first_claimed_at: Moment,
    claimed_at: Moment,
    expires_at: Moment,
    lease_until: Moment,
    ended_at: Moment,
    sequence: i64,
    checkpoint: Option<Bytes>,
    response: Option<Bytes>,
}

impl Columns<'_> {
    /// Nobody but the functions should write rows; whatever else did is an error here.
    fn into_record(self) -> Result<Record, CorruptRecord> {
        let known = |moment: Moment, name| moment.ok_or(field(name))?;
        let fingerprint = self.fingerprint.try_into().map_err(|_| field("fingerprint"))?;
        let attempt = u32::try_from(self.attempt).ok().and_then(AttemptNumber::new);
        let retention_ms = u64::try_from(self.retention_ms).map_err(|_| field("retention"))?;
        let retention = Retention::new(Duration::from_millis(retention_ms));
        let is_running = self.state == 0;
        if self.lease_until.is_some() != is_running {
            return Err(field("lease"));
        }
        if self.ended_at.is_some() == is_running {
            return Err(field("end"));
        }
        let state = match (self.state, self.checkpoint, self.response) {
            (0, checkpoint, None) => State::InProgress {
                lease_until: known(self.lease_until, "lease")?,
                sequence: self.sequence.cast_unsigned(),
                checkpoint,
            },
            (state @ (1 | 2), checkpoint, None) => {
                let reason =
                    if state == 1 { ReleaseReason::Failed } else { ReleaseReason::Unknown };
                State::Released { reason, at: known(self.ended_at, "end")?, checkpoint }
            }
            (3, None, Some(response)) => {
                State::Completed { at: known(self.ended_at, "end")?, response }
            }
            (4, None, None) => State::Unused,
            _ => return Err(field("state")),
        };
        Ok(Record {
            fingerprint: Fingerprint::from_stored_bytes(fingerprint),
            token: ClaimToken::from_stored_bytes(self.token.into_bytes()),
            attempt: attempt.ok_or(field("attempt"))?,
            retention: retention.map_err(|_| field("retention"))?,
            first_claimed_at: known(self.first_claimed_at, "beginning")?,
            claimed_at: known(self.claimed_at, "beginning")?,
            expires_at: known(self.expires_at, "expiry")?,
            state,
        })
    }
}

const fn field(field: &'static str) -> CorruptRecord {
    CorruptRecord::Field { field }
}

/// A `timestamptz` in its binary form: microseconds since 2000-01-01 UTC, whatever the time zone of
/// the session.
fn moment(fields: &mut Fields<'_>) -> Result<Moment, sqlx::Error> {
    Ok(fields.int8()?.map(timestamp))
}

/// Infinity, either one, is no moment, and neither is one before 1970.
fn timestamp(micros: i64) -> Result<Timestamp, CorruptRecord> {
    const UNIX_EPOCH_TO_2000_MICROS: i64 = 946_684_800_000_000;
    let micros = Some(micros).filter(|micros| ![i64::MIN, i64::MAX].contains(micros));
    let since_epoch = micros.and_then(|micros| micros.checked_add(UNIX_EPOCH_TO_2000_MICROS));
    let micros =
        since_epoch.and_then(|micros| u64::try_from(micros).ok()).ok_or(field("moment"))?;
    Ok(Timestamp::from_unix_millis(micros / 1_000))
}

/// Milliseconds for a statement. Leases and retentions fit by their types.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A moment for a statement.
pub(crate) fn unix_millis(moment: Timestamp) -> i64 {
    i64::try_from(moment.as_unix_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn token(token: ClaimToken) -> Uuid {
    Uuid::from_bytes(*token.as_bytes())
}

/// `PostgreSQL` has no unsigned numbers: the same bits.
pub(crate) const fn sequence(sequence: u64) -> i64 {
    sequence.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns<'static> {
        let moment = Some(Ok(Timestamp::from_unix_millis(7)));
        Columns {
            state: 0,
            fingerprint: &[1; 33],
            token: Uuid::from_bytes([2; 16]),
            attempt: 1,
            retention_ms: 1,
            first_claimed_at: moment,
            claimed_at: moment,
            expires_at: moment,
            lease_until: moment,
            ended_at: None,
            sequence: 0,
            checkpoint: None,
            response: None,
        }
    }

    #[test]
    fn moments_are_whole_milliseconds_since_1970_or_refused() {
        assert_eq!(timestamp(0), Ok(Timestamp::from_unix_millis(946_684_800_000)));
        assert_eq!(timestamp(1_999), Ok(Timestamp::from_unix_millis(946_684_800_001)));
        assert_eq!(timestamp(-946_684_800_000_000), Ok(Timestamp::from_unix_millis(0)));
        for no_moment in [-946_684_800_000_001, i64::MIN, i64::MAX] {
            assert_eq!(timestamp(no_moment), Err(field("moment")));
        }
    }

    /// Kind of fault: foreign or half-known content under the key (H-22).
    #[test]
    fn a_row_that_no_release_writes_is_corrupt() {
        assert!(columns().into_record().is_ok());
        let bytes = || Some(Bytes::from_static(b"x"));
        let moment = Some(Ok(Timestamp::from_unix_millis(7)));
        let ended = |state| Columns { state, lease_until: None, ended_at: moment, ..columns() };
        assert!(ended(1).into_record().is_ok() && ended(4).into_record().is_ok());
        let cases: [(&str, Columns<'_>); 11] = [
            ("state", ended(5)),
            ("state", ended(3)),
            ("state", Columns { response: bytes(), ..columns() }),
            ("state", Columns { checkpoint: bytes(), ..ended(4) }),
            ("lease", Columns { lease_until: None, ..columns() }),
            ("lease", Columns { lease_until: moment, ..ended(2) }),
            ("end", Columns { ended_at: moment, ..columns() }),
            ("fingerprint", Columns { fingerprint: &[1; 32], ..columns() }),
            ("attempt", Columns { attempt: 0, ..columns() }),
            ("retention", Columns { retention_ms: -1, ..columns() }),
            ("end", Columns { ended_at: None, ..ended(1) }),
        ];
        for (name, columns) in cases {
            assert_eq!(columns.into_record().unwrap_err(), field(name));
        }
    }
}
