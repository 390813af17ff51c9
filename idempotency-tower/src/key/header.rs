//! Reads the key out of a header.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, Item, Parser};

use super::KeyFault;
use crate::KeyRule;

/// The key under `name`; none when there is no such header.
///
/// One rule for both spellings: a value that begins with a quotation mark is a structured-field string
/// (RFC 9651) without parameters, and any other value is a bare key, the same as that text in quotes.
pub(crate) fn find<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
    rule: KeyRule,
) -> Result<Option<Cow<'h, str>>, KeyFault> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(KeyFault::Repeated);
    }
    parse(value, rule).map(Some)
}

fn parse(value: &HeaderValue, rule: KeyRule) -> Result<Cow<'_, str>, KeyFault> {
    let text = value.as_bytes().trim_ascii();
    if let Some(at) = text.iter().position(|b| !matches!(b, b' '..=b'~')) {
        return Err(KeyFault::NotPrintable { at });
    }
    let quoted_key = text.starts_with(b"\"");
    let key = if quoted_key { Cow::Owned(quoted(text)?) } else { Cow::Borrowed(bare(text)?) };
    rule.check(&key)?;
    Ok(key)
}

fn quoted(text: &[u8]) -> Result<String, KeyFault> {
    let item: Item = Parser::new(text).parse().map_err(|_| KeyFault::NotAString)?;
    match item.bare_item {
        BareItem::String(key) if item.params.is_empty() => Ok(key.into()),
        BareItem::String(_) => Err(KeyFault::Parameters),
        _ => Err(KeyFault::NotAString),
    }
}

/// What looks like a list, like parameters or like half a string is not guessed at.
fn bare(text: &[u8]) -> Result<&str, KeyFault> {
    match text.iter().find(|b| matches!(b, b'"' | b',' | b';')) {
        Some(&found) => Err(KeyFault::Ambiguous { character: char::from(found) }),
        // it is ASCII by now
        None => str::from_utf8(text).map_err(|_| KeyFault::NotPrintable { at: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyText;

    const RULE: KeyRule = KeyRule { max_bytes: 255, text: KeyText::Printable };

    fn read(value: &[u8]) -> Result<String, KeyFault> {
        parse(&HeaderValue::from_bytes(value).unwrap(), RULE).map(Cow::into_owned)
    }

    /// Kind of fault: two spellings of one key are two keys (H-31).
    #[test]
    fn bare_and_quoted_spellings_are_one_key() {
        for (one, other) in [
            (&b"abc"[..], &b"\"abc\""[..]),
            (b"  abc ", b" \"abc\" "),
            (b"a b", b"\"a b\""),
            (b"a\\b", b"\"a\\\\b\""),
        ] {
            assert_eq!(read(one).unwrap(), read(other).unwrap());
        }
        assert_eq!(read(b"\"a\\\"b,c;d\"").unwrap(), "a\"b,c;d");
    }

    /// Kinds of fault: empty, doubled, over-long, unprintable and half-quoted keys that are taken
    /// for keys (H-28, H-29, H-30, H-31).
    #[test]
    fn what_cannot_be_one_key_is_refused() {
        let long = vec![b'k'; 256];
        let too_long = KeyFault::TooLong { bytes: 256, max: 255 };
        let cases: [(&[u8], KeyFault); 15] = [
            (b"", KeyFault::Empty),
            (b"   ", KeyFault::Empty),
            (b"\"\"", KeyFault::Empty),
            (b"\"  \"", KeyFault::Empty),
            (&long, too_long),
            (b"\xff\xfe", KeyFault::NotPrintable { at: 0 }),
            ("ключ".as_bytes(), KeyFault::NotPrintable { at: 0 }),
            (b"a\tb", KeyFault::NotPrintable { at: 1 }),
            (b"\"abc", KeyFault::NotAString),
            (b"\"a\" \"b\"", KeyFault::NotAString),
            (b"\"a\", \"a\"", KeyFault::NotAString),
            (b"\"abc\";p=1", KeyFault::Parameters),
            (b"abc\"", KeyFault::Ambiguous { character: '"' }),
            (b"K, K", KeyFault::Ambiguous { character: ',' }),
            (b"abc;p=1", KeyFault::Ambiguous { character: ';' }),
        ];
        for (value, fault) in cases {
            assert_eq!(read(value), Err(fault), "{}", value.escape_ascii());
        }
        assert_eq!(read(&long[1..]).unwrap().len(), 255);
    }

    #[test]
    fn a_header_sent_twice_is_refused_also_when_both_say_the_same() {
        let name = HeaderName::from_static("idempotency-key");
        let mut headers = HeaderMap::new();
        assert_eq!(find(&headers, &name, RULE), Ok(None));
        headers.append(name.clone(), HeaderValue::from_static("k"));
        assert_eq!(find(&headers, &name, RULE), Ok(Some("k".into())));
        headers.append(name.clone(), HeaderValue::from_static("k"));
        assert_eq!(find(&headers, &name, RULE), Err(KeyFault::Repeated));
    }
}
