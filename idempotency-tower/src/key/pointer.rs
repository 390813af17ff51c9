use std::{borrow::Cow, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::KeyFault;

/// A JSON pointer (RFC 6901): a place in a JSON body, like `/id` or `/meta/keys/0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPointer {
    text: Cow<'static, str>,
    tokens: Vec<Cow<'static, str>>,
}

/// A text that is no JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no JSON pointer (RFC 6901): it begins with `/`, and `~` is written `~0`")]
pub struct JsonPointerError {
    text: String,
}

impl JsonPointer {
    /// The pointer with this text.
    ///
    /// # Errors
    /// It does not begin with `/`, or has a `~` that is followed by neither 0 nor 1.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Result<Self, JsonPointerError> {
        let text = text.into();
        let is_escaped = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
        let Some(path) = text.strip_prefix('/').filter(|_| is_escaped) else {
            return Err(JsonPointerError { text: text.into_owned() });
        };
        let token = |token: &str| Cow::Owned(token.replace("~1", "/").replace("~0", "~"));
        let tokens = path.split('/').map(token).collect();
        Ok(Self { text, tokens })
    }

    /// `/id`, where events have their name.
    pub(crate) fn id() -> Self {
        Self { text: Cow::Borrowed("/id"), tokens: vec![Cow::Borrowed("id")] }
    }

    pub(super) fn find(&self, body: &[u8]) -> Result<Option<String>, KeyFault> {
        find(&self.tokens, body)
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text or the whole number at the end of the path; none when there is nothing, or null. The body
/// is walked through and not kept.
pub(super) fn find(path: &[impl AsRef<str>], body: &[u8]) -> Result<Option<String>, KeyFault> {
    if body.is_empty() {
        return Ok(None);
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let found = Walk(path).deserialize(&mut json).and_then(|found| json.end().map(|()| found));
    match found.map_err(|_| KeyFault::BodyNotJson)? {
        Found::Nothing => Ok(None),
        Found::Text(text) => Ok(Some(text)),
        Found::NoText => Err(KeyFault::NotText),
        Found::Twice => Err(KeyFault::Repeated),
    }
}

enum Found {
    Nothing,
    Text(String),
    NoText,
    /// A member that is there twice, and of which readers choose the one or the other.
    Twice,
}

/// What is left of the path.
struct Walk<'p, T>(&'p [T]);

impl<T> Walk<'_, T> {
    fn scalar(&self, text: impl FnOnce() -> Found) -> Found {
        if self.0.is_empty() { text() } else { Found::Nothing }
    }
}

impl<'de, T: AsRef<str>> DeserializeSeed<'de> for Walk<'_, T> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Found, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, T: AsRef<str>> Visitor<'de> for Walk<'_, T> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Found, E> {
        Ok(self.scalar(|| Found::Text(text.into())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Found, E> {
        Ok(self.scalar(|| Found::Text(number.to_string())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Found, E> {
        Ok(self.scalar(|| Found::Text(number.to_string())))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Found, E> {
        Ok(self.scalar(|| Found::NoText))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Found, E> {
        Ok(self.scalar(|| Found::NoText))
    }

    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Found, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            match self.0.split_first() {
                Some((token, rest)) if token.as_ref() == name => {
                    let value = members.next_value_seed(Walk(rest))?;
                    found = Some(if found.is_none() { value } else { Found::Twice });
                }
                _ => _ = members.next_value::<IgnoredAny>()?,
            }
        }
        Ok(found.unwrap_or_else(|| self.scalar(|| Found::NoText)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Found, A::Error> {
        let (wanted, rest) = match self.0.split_first() {
            Some((token, rest)) => (index(token.as_ref()), rest),
            None => (None, self.0),
        };
        let (mut found, mut at) = (None, 0);
        loop {
            if wanted == Some(at) {
                found = elements.next_element_seed(Walk(rest))?;
                if found.is_none() {
                    break;
                }
            } else if elements.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
            at += 1;
        }
        Ok(found.unwrap_or_else(|| self.scalar(|| Found::NoText)))
    }
}

/// `0`, or digits that do not begin with 0.
fn index(token: &str) -> Option<usize> {
    let is_canonical = token == "0" || token.starts_with(|first| matches!(first, '1'..='9'));
    token.parse().ok().filter(|_| is_canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pointer: &'static str, body: &str) -> Result<Option<String>, KeyFault> {
        JsonPointer::new(pointer).unwrap().find(body.as_bytes())
    }

    #[test]
    fn a_pointer_leads_to_a_text_or_a_whole_number() {
        let body = r#"{"id":"e\u00761","a/b":{"~":[true,{"n":18446744073709551615}]},"":-3}"#;
        for (pointer, found) in [
            ("/id", Ok(Some("ev1"))),
            ("/a~1b/~0/1/n", Ok(Some("18446744073709551615"))),
            ("/", Ok(Some("-3"))),
            ("/a~1b/~0/0", Err(KeyFault::NotText)),
            ("/a~1b", Err(KeyFault::NotText)),
            ("/a~1b/~0", Err(KeyFault::NotText)),
            ("/a~1b/~0/01/n", Ok(None)),
            ("/a~1b/~0/2/n", Ok(None)),
            ("/id/x", Ok(None)),
            ("/other", Ok(None)),
        ] {
            assert_eq!(read(pointer, body), found.map(|text| text.map(str::to_owned)), "{pointer}");
        }
        assert_eq!(read("/id", r#"{"id":null}"#), Ok(None));
        assert_eq!(read("/id", r#"{"id":1.5}"#), Err(KeyFault::NotText));
        assert_eq!(read("/id", ""), Ok(None));
    }

    /// Kind of fault: two readers of one body find two keys (H-29), or one finds none and the request
    /// runs without protection.
    #[test]
    fn what_readers_may_read_otherwise_is_refused() {
        assert_eq!(read("/id", r#"{"id":"a","id":"b"}"#), Err(KeyFault::Repeated));
        for body in ["{", "id=1", r#"{"id":"a"}{"id":"b"}"#, "{\"id\":\"\u{1}\"}", "[1,]"] {
            assert_eq!(read("/id", body), Err(KeyFault::BodyNotJson), "{body}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(read("/id", &deep), Err(KeyFault::BodyNotJson));
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for wrong in ["", "id", "/~", "/~2", "/a~"] {
            let error = JsonPointer::new(wrong).unwrap_err();
            assert!(error.to_string().contains("RFC 6901"), "{error}");
        }
        assert_eq!(JsonPointer::new("/id"), Ok(JsonPointer::id()));
    }
}
