//! Stored answers: what they are, and as bytes for a file.

use std::fmt::{self, Write as _};

use anyhow::{Context, bail};
use bytes::Bytes;
use idempotency::{
    Answer, AnswerBody, AnswerError, Codec, NotKeptReason,
    tower::{StoredResponse, stored_response},
};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// What a stored answer is, without its content.
#[derive(Serialize)]
pub(crate) struct AnswerView {
    bytes: usize,
    sha256: String,
    #[serde(flatten)]
    kind: Kind,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Kind {
    /// What `run` stored of a success.
    Value,
    /// What `run` stored of an error.
    Error,
    /// A value or an error in a codec that this program does not read.
    OtherCodec,
    /// What the HTTP layer stored.
    Http { status: u16, headers: usize, body_bytes: usize },
    /// Bytes that only the service understands.
    Bytes,
    /// The operation is done; its answer was not kept.
    NotKept { reason: &'static str },
    /// Not an answer of this library's executor.
    Foreign,
}

impl AnswerView {
    pub(crate) fn of(stored: &Bytes) -> Self {
        let digest = Sha256::digest(stored);
        let sha256 = digest.iter().fold(String::with_capacity(64), |mut text, byte| {
            let _written: fmt::Result = write!(text, "{byte:02x}");
            text
        });
        Self { bytes: stored.len(), sha256, kind: kind(stored) }
    }
}

fn kind(stored: &Bytes) -> Kind {
    let Ok(answer) = Answer::from_stored(stored.clone()) else {
        return Kind::Foreign;
    };
    match answer.body() {
        AnswerBody::NotKept(reason) => Kind::NotKept { reason: reason_of(reason) },
        AnswerBody::Bytes(bytes) => match StoredResponse::read(bytes) {
            Ok(response) => Kind::Http {
                status: response.status.as_u16(),
                headers: response.headers.len(),
                body_bytes: response.body.len(),
            },
            Err(_) => Kind::Bytes,
        },
        AnswerBody::Value => match answer.to_value::<Box<RawValue>, Box<RawValue>>() {
            Ok(Ok(_)) => Kind::Value,
            Ok(Err(_)) => Kind::Error,
            Err(AnswerError::Codec { .. }) => Kind::OtherCodec,
            Err(_) => Kind::Foreign,
        },
    }
}

const fn reason_of(reason: NotKeptReason) -> &'static str {
    match reason {
        NotKeptReason::TooLarge => "too large",
        NotKeptReason::NotEncodable => "could not be written",
        NotKeptReason::Stream => "a stream",
        // reasons of a newer release read as the most general one
        _ => "broke off",
    }
}

impl fmt::Display for AnswerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = self.sha256.get(..16).unwrap_or_default();
        write!(f, "{} bytes, SHA-256 {digest}…: ", self.bytes)?;
        match &self.kind {
            Kind::Value => f.write_str("a success, as JSON"),
            Kind::Error => f.write_str("an error, as JSON"),
            Kind::OtherCodec => f.write_str("a value in another codec than JSON"),
            Kind::Http { status, headers, body_bytes } => {
                write!(f, "HTTP {status}, headers: {headers}, body: {body_bytes} bytes")
            }
            Kind::Bytes => f.write_str("bytes of the service's own"),
            Kind::NotKept { reason } => write!(f, "done, the answer was not kept: {reason}"),
            Kind::Foreign => f.write_str("not written by this library's executor"),
        }
    }
}

/// The content as people and other programs read it: the JSON of a value, an HTTP response as a
/// message, bytes as they are.
pub(crate) fn content(stored: &Bytes) -> anyhow::Result<Vec<u8>> {
    let answer = Answer::from_stored(stored.clone())
        .context("this answer is no answer of the executor's: --raw writes its bytes")?;
    Ok(match answer.body() {
        AnswerBody::NotKept(reason) => {
            bail!("the operation is done, and its answer was not kept: {}", reason_of(reason))
        }
        AnswerBody::Bytes(bytes) => match StoredResponse::read(bytes.clone()) {
            Ok(response) => message(&response),
            Err(_) => bytes.into(),
        },
        AnswerBody::Value => match answer.to_value::<Box<RawValue>, Box<RawValue>>() {
            Ok(Ok(value) | Err(value)) => value.get().as_bytes().to_vec(),
            Err(error) => return Err(error).context("--raw writes its bytes"),
        },
    })
}

/// `HTTP/1.1 201 Created`, header lines, an empty line, the body.
fn message(response: &StoredResponse) -> Vec<u8> {
    let mut message = format!("HTTP/1.1 {}\r\n", response.status).into_bytes();
    for (name, value) in &response.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            message.extend_from_slice(part);
        }
    }
    message.extend_from_slice(b"\r\n");
    message.extend_from_slice(&response.body);
    message
}

/// How the content of a file becomes an answer.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Encoding {
    /// JSON: the value of a success, for services that use `run`.
    Value,
    /// JSON: the value of an error, for services that use `run`.
    Error,
    /// An HTTP response as a message, for services behind the HTTP layer: `HTTP/1.1 201 Created`,
    /// headers, an empty line, the body.
    Http,
    /// Bytes, for services that complete by hand.
    Bytes,
    /// The exact bytes of another answer, as `lookup --raw` writes them.
    Raw,
}

const RAW: &str = "--as raw takes what `lookup --response FILE --raw` writes";

impl Encoding {
    pub(crate) fn answer(self, content: Vec<u8>) -> anyhow::Result<Answer> {
        Ok(match self {
            Self::Bytes => Answer::bytes(content),
            Self::Raw if content.is_empty() => bail!("the response is empty: {RAW}"),
            Self::Raw => Answer::from_stored(content.into())
                .with_context(|| format!("the response is no answer as it is stored: {RAW}"))?,
            Self::Value => Answer::value::<_, Box<RawValue>>(&Ok(json(&content)?), Codec::Json)?,
            Self::Error => Answer::value::<Box<RawValue>, _>(&Err(json(&content)?), Codec::Json)?,
            Self::Http => stored_response(&read_message(&content)?)
                .context("the response has more header lines than can be stored")?,
        })
    }
}

/// The text as it is: numbers stay as they are written.
fn json(content: &[u8]) -> anyhow::Result<Box<RawValue>> {
    serde_json::from_slice(content).context("the response is no JSON")
}

fn read_message(content: &[u8]) -> anyhow::Result<http::Response<&[u8]>> {
    const MOST_HEADERS: usize = 256;
    const FORM: &str = "the response is no HTTP response: it begins with `HTTP/1.1 201 Created`, and \
         has an empty line after its headers";
    let mut lines = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Response::new(&mut lines);
    let httparse::Status::Complete(length) = head.parse(content).context(FORM)? else {
        bail!(FORM);
    };
    let mut response = http::Response::builder().status(head.code.unwrap_or_default());
    for line in head.headers.iter() {
        response = response.header(line.name, line.value);
    }
    Ok(response.body(content.get(length..).unwrap_or_default())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(stored: &Bytes) -> String {
        let shown = AnswerView::of(stored).to_string();
        shown.split_once("…: ").unwrap().1.to_owned()
    }

    #[test]
    fn what_is_written_to_a_file_can_settle_another_key() {
        let http = "HTTP/1.1 201 Created\r\nlocation: /ch_1\r\nx-a: 1\r\nx-a: 2\r\n\r\n{\"id\":1}";
        let cases: [(Encoding, &[u8], &str); 5] = [
            (Encoding::Value, br#"{"amount":1.10,"big":123456789012345678901}"#, "a success"),
            (Encoding::Error, br#""declined""#, "an error"),
            (Encoding::Http, http.as_bytes(), "HTTP 201, headers: 3, body: 8 bytes"),
            (Encoding::Bytes, b"\x00\xff", "bytes of the service's own"),
            (Encoding::Raw, b"\x01\x00\x01{\"a\":1}", "a success"),
        ];
        for (encoding, file, kind) in cases {
            let stored = encoding.answer(file.to_vec()).unwrap().as_stored().clone();
            assert!(shown(&stored).starts_with(kind), "{}", shown(&stored));
            if encoding != Encoding::Raw {
                assert_eq!(content(&stored).unwrap(), file);
            }
        }
    }

    #[test]
    fn files_that_are_no_answer_are_refused_with_the_form() {
        let cases: [(Encoding, &[u8], &str); 8] = [
            (Encoding::Value, b"{", "no JSON"),
            (Encoding::Http, b"{}", "HTTP/1.1 201 Created"),
            (Encoding::Http, b"HTTP/1.1 200 OK\r\na: b\r\n", "empty line"),
            (Encoding::Http, b"", "empty line"),
            (Encoding::Raw, b"", "is empty: --as raw takes what `lookup"),
            (Encoding::Raw, b"\x01", "shorter than the 3 bytes"),
            (Encoding::Raw, b"{}{}", "begins with the bytes 7b 7d 7b"),
            (Encoding::Raw, b"{}{}", "--as raw takes what `lookup"),
        ];
        for (encoding, file, hint) in cases {
            let error = format!("{:#}", encoding.answer(file.to_vec()).unwrap_err());
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn answers_without_content_say_so() {
        let gone = Answer::not_kept(NotKeptReason::Stream).as_stored().clone();
        assert_eq!(shown(&gone), "done, the answer was not kept: a stream");
        assert!(content(&gone).unwrap_err().to_string().contains("a stream"));
        let foreign = Bytes::from_static(b"{}{}");
        assert!(shown(&foreign).starts_with("not written"));
        assert!(content(&foreign).unwrap_err().to_string().contains("--raw"));
        let codec = Bytes::from_static(b"\x01\x00\x09x");
        assert!(shown(&codec).starts_with("a value in another codec"));
    }
}
