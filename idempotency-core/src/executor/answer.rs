use std::fmt;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use super::{Codec, CodecError};

/// What is stored as the response of a completed key, format 1:
///
/// | offset | bytes | what |
/// |---|---|---|
/// | 0 | 1 | format, 1 |
/// | 1 | 1 | 0 success, 1 error, 2 bytes of the caller's own, 3 not kept |
/// | 2 | 1 | 0 and 1: codec (1 JSON, 2 bincode, 3 postcard); 3: why; else 0 |
/// | 3 | n | the value or the bytes |
#[derive(Clone, PartialEq, Eq)]
pub struct Answer(Bytes);

const FORMAT: u8 = 1;
const SUCCESS: u8 = 0;
const ERROR: u8 = 1;
const RAW: u8 = 2;
const NOT_KEPT: u8 = 3;

/// Why the answer to a finished operation was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotKeptReason {
    /// Larger than the store takes.
    TooLarge,
    /// The codec could not write it.
    NotEncodable,
    /// A stream, which has no end to wait for.
    Stream,
    /// It broke off before its end.
    Broken,
}

/// A stored answer that this release, or this type, cannot read. The operation is done; only its
/// answer is out of reach.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// Not written by the executor, or by a newer one.
    #[error(
        "the stored answer {}: finish the upgrade, or check what else completes these keys",
        as_found(*found)
    )]
    Format {
        /// The first bytes; none: there are fewer than three.
        found: Option<[u8; 3]>,
    },
    /// Written with a codec that is not compiled in.
    #[error("the stored answer was written with codec {id}: enable its feature")]
    Codec {
        /// 2 bincode, 3 postcard.
        id: u8,
    },
    /// The type asked for does not fit what is stored.
    #[error("the stored answer does not fit the type that is asked for")]
    Type(#[source] CodecError),
    /// A value is stored and bytes were asked for, or the other way round.
    #[error("the stored answer is {found}, not {wanted}: one key was used through two doors")]
    Kind {
        /// What is stored.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
}

fn as_found(head: Option<[u8; 3]>) -> String {
    match head {
        Some([a, b, c]) => {
            format!(
                "begins with the bytes {a:02x} {b:02x} {c:02x}, which this release does not read"
            )
        }
        None => "is shorter than the 3 bytes that every answer begins with".to_owned(),
    }
}

/// What an answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerBody {
    /// A value that `run` stored.
    Value,
    /// Bytes of the caller's own.
    Bytes(Bytes),
    /// Nothing but the fact that the operation is done.
    NotKept(NotKeptReason),
}

impl Answer {
    /// An answer of bytes that only the caller understands.
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self::assemble(RAW, 0, &[bytes.as_ref()])
    }

    /// An answer of bytes that only the caller understands, in parts that are joined here: without
    /// another copy of a large one.
    pub fn joined(parts: &[&[u8]]) -> Self {
        Self::assemble(RAW, 0, parts)
    }

    /// An answer that says only that the operation is done.
    pub fn not_kept(reason: NotKeptReason) -> Self {
        Self::assemble(NOT_KEPT, reason as u8, &[])
    }

    /// The result of an operation, as `run` stores it.
    ///
    /// # Errors
    /// The codec cannot write the value.
    pub fn value<T, E>(result: &Result<T, E>, codec: Codec) -> Result<Self, CodecError>
    where
        T: Serialize,
        E: Serialize,
    {
        let kind = if result.is_ok() { SUCCESS } else { ERROR };
        let mut out = vec![FORMAT, kind, codec.id()];
        match result {
            Ok(value) => codec.encode_into(value, &mut out)?,
            Err(error) => codec.encode_into(error, &mut out)?,
        }
        Ok(Self(out.into()))
    }

    /// An answer as a store has kept it.
    ///
    /// # Errors
    /// Another format.
    pub fn from_stored(response: Bytes) -> Result<Self, AnswerError> {
        match response.first_chunk() {
            Some([FORMAT, SUCCESS..=NOT_KEPT, _]) => Ok(Self(response)),
            found => Err(AnswerError::Format { found: found.copied() }),
        }
    }

    /// What a store keeps.
    pub const fn as_stored(&self) -> &Bytes {
        &self.0
    }

    /// What it holds.
    pub fn body(&self) -> AnswerBody {
        let [_, kind, detail] = self.header();
        match kind {
            NOT_KEPT => AnswerBody::NotKept(NotKeptReason::from_id(detail)),
            RAW => AnswerBody::Bytes(self.payload()),
            _ => AnswerBody::Value,
        }
    }

    /// The value, as `run` stored it.
    ///
    /// # Errors
    /// It holds something else, was written with a codec that is not compiled in, or does not fit.
    pub fn to_value<T, E>(&self) -> Result<Result<T, E>, AnswerError>
    where
        T: DeserializeOwned,
        E: DeserializeOwned,
    {
        let [_, kind, id] = self.header();
        let wanted = "a value";
        match kind {
            RAW => {
                return Err(AnswerError::Kind { found: "bytes", wanted });
            }
            NOT_KEPT => {
                return Err(AnswerError::Kind { found: "not kept", wanted });
            }
            _ => {}
        }
        let codec = Codec::from_id(id).ok_or(AnswerError::Codec { id })?;
        let payload = self.payload();
        if kind == SUCCESS {
            codec.decode(&payload).map(Ok).map_err(AnswerError::Type)
        } else {
            codec.decode(&payload).map(Err).map_err(AnswerError::Type)
        }
    }

    pub(super) fn is_not_kept(&self) -> bool {
        matches!(self.body(), AnswerBody::NotKept(_))
    }

    fn assemble(kind: u8, detail: u8, payload: &[&[u8]]) -> Self {
        let header = [FORMAT, kind, detail];
        let length = header.len() + payload.iter().map(|part| part.len()).sum::<usize>();
        let mut stored = Vec::with_capacity(length);
        stored.extend_from_slice(&header);
        for part in payload {
            stored.extend_from_slice(part);
        }
        Self(stored.into())
    }

    fn header(&self) -> [u8; 3] {
        self.0.first_chunk().copied().unwrap_or_default()
    }

    fn payload(&self) -> Bytes {
        self.0.slice(self.0.len().min(3)..)
    }
}

impl NotKeptReason {
    /// Reasons of a newer release read as the most general one.
    const fn from_id(id: u8) -> Self {
        match id {
            0 => Self::TooLarge,
            1 => Self::NotEncodable,
            2 => Self::Stream,
            _ => Self::Broken,
        }
    }
}

/// Shows kind and length, not the content.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, kind, _] = self.header();
        let kind = match kind {
            SUCCESS => "success",
            ERROR => "error",
            RAW => "bytes",
            _ => "not kept",
        };
        write!(f, "Answer({kind}, {} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Stored = Result<(u64, String), String>;

    /// Kind of fault: records of another release (H-27). These bytes are what release 0.1 stores;
    /// they must be read for ever.
    #[test]
    fn stored_answers_of_format_1_are_read_for_ever() {
        let golden: [(&[u8], Stored); 2] = [
            (b"\x01\x00\x01[7,\"a\"]", Ok((7, "a".into()))),
            (b"\x01\x01\x01\"no\"", Err("no".into())),
        ];
        for (bytes, value) in golden {
            let stored = Answer::from_stored(Bytes::from_static(bytes)).unwrap();
            assert_eq!(stored.to_value::<(u64, String), String>().unwrap(), value);
            assert_eq!(Answer::value(&value, Codec::Json).unwrap(), stored);
        }
        let raw = Answer::from_stored(Bytes::from_static(b"\x01\x02\x00\x00\xff")).unwrap();
        assert_eq!(raw.body(), AnswerBody::Bytes(Bytes::from_static(b"\x00\xff")));
        let gone = Answer::from_stored(Bytes::from_static(b"\x01\x03\x00")).unwrap();
        assert_eq!(gone.body(), AnswerBody::NotKept(NotKeptReason::TooLarge));
    }

    /// Kind of fault: foreign or half-known content under the key (H-22).
    #[test]
    fn foreign_and_future_answers_are_errors_not_answers() {
        for bytes in [&b""[..], b"\x01", b"\x01\x00", b"\x02\x00\x01{}", b"\x01\x04\x00", b"{}{}"] {
            let stored = Answer::from_stored(Bytes::copy_from_slice(bytes));
            assert!(matches!(stored, Err(AnswerError::Format { .. })), "{bytes:?}");
            let told = stored.unwrap_err().to_string();
            let head = if bytes.len() < 3 { "is shorter than" } else { "begins with the bytes " };
            assert!(told.contains(head) && !told.contains("None"), "{told}");
        }
        let read = |bytes: &'static [u8]| {
            Answer::from_stored(Bytes::from_static(bytes)).unwrap().to_value::<u64, String>()
        };
        assert!(matches!(read(b"\x01\x00\x09x"), Err(AnswerError::Codec { id: 9 })));
        assert!(matches!(read(b"\x01\x00\x01\"x\""), Err(AnswerError::Type(_))));
        assert!(matches!(read(b"\x01\x02\x00x"), Err(AnswerError::Kind { .. })));
    }

    /// Kind of fault: an empty result looks like no result (H-21); byte fidelity (H-38).
    #[test]
    fn empty_values_and_all_bytes_come_back() {
        let unit: Result<(), String> = Ok(());
        let answer = Answer::value(&unit, Codec::Json).unwrap();
        assert_eq!(answer.to_value::<(), String>().unwrap(), Ok(()));
        assert_eq!(Answer::bytes([]).body(), AnswerBody::Bytes(Bytes::new()));
        let all: Vec<u8> = (0..=255).collect();
        let (begin, end) = all.split_at(100);
        assert_eq!(Answer::joined(&[begin, end]), Answer::bytes(&all));
        assert_eq!(Answer::bytes(&all).body(), AnswerBody::Bytes(all.into()));
    }

    #[test]
    fn every_codec_gives_the_value_back() {
        let value: Stored = Ok((u64::MAX, "é".into()));
        let codecs = [
            Codec::Json,
            #[cfg(feature = "bincode")]
            Codec::Bincode,
            #[cfg(feature = "postcard")]
            Codec::Postcard,
        ];
        for codec in codecs {
            let answer = Answer::value(&value, codec).unwrap();
            assert_eq!(answer.to_value::<(u64, String), String>().unwrap(), value, "{codec:?}");
            assert_eq!(Codec::from_id(codec.id()), Some(codec));
        }
    }

    #[test]
    fn debug_shows_no_content() {
        let answer = Answer::bytes("secret");
        assert_eq!(format!("{answer:?}"), "Answer(bytes, 9 bytes)");
    }
}
