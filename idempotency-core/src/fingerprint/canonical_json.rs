//! One text for all JSON texts of one meaning: RFC 8785 without its rounding of numbers.
//!
//! The grammar is checked by `serde_json`; what follows only rearranges a text that is known to be
//! valid, because a parsed number no longer tells its digits.

use serde::de::IgnoredAny;

use super::FingerprintError;

/// `serde_json` recurses once a level and stops at the same depth.
const MAX_DEPTH: usize = 127;

pub(super) fn canonical(text: &[u8]) -> Result<String, FingerprintError> {
    check_depth(text)?;
    let _: IgnoredAny = serde_json::from_slice(text).map_err(|error| not_json(&error))?;
    let text = std::str::from_utf8(text).map_err(|error| {
        let (line, column) = position(text, error.valid_up_to());
        FingerprintError::NotJson { line, column }
    })?;
    let mut reader = Reader { text, at: 0 };
    let mut canonical = String::with_capacity(text.len());
    reader.value(&mut canonical)?;
    Ok(canonical)
}

fn not_json(error: &serde_json::Error) -> FingerprintError {
    FingerprintError::NotJson { line: error.line(), column: error.column() }
}

fn position(text: &[u8], at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
    (line, column)
}

fn check_depth(text: &[u8]) -> Result<(), FingerprintError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(FingerprintError::TooDeep { limit: MAX_DEPTH, at });
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Walks over a JSON text that is known to be valid.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next character that is no white space; it is not consumed.
    fn peek(&mut self) -> u8 {
        let rest = self.rest();
        let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.at += rest.len() - trimmed.len();
        trimmed.bytes().next().unwrap_or_default()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Consumes `bytes` bytes and returns them.
    fn take(&mut self, bytes: usize) -> &'a str {
        let token = self.rest().get(..bytes).unwrap_or_default();
        self.at += token.len();
        token
    }

    /// Consumes the separator if it comes next.
    fn skip(&mut self, separator: u8) -> bool {
        let found = self.peek() == separator;
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, out: &mut String) -> Result<(), FingerprintError> {
        match self.peek() {
            b'{' => self.object(out),
            b'[' => self.array(out),
            b'"' => {
                let text = self.string()?;
                push_string(out, &text)
            }
            _ => {
                let rest = self.rest();
                let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']);
                out.push_str(self.take(end.unwrap_or(rest.len())));
                Ok(())
            }
        }
    }

    fn array(&mut self, out: &mut String) -> Result<(), FingerprintError> {
        self.skip(b'[');
        out.push('[');
        let mut first = true;
        while !self.skip(b']') {
            if !first {
                self.skip(b',');
                out.push(',');
            }
            first = false;
            self.value(out)?;
        }
        out.push(']');
        Ok(())
    }

    fn object(&mut self, out: &mut String) -> Result<(), FingerprintError> {
        self.skip(b'{');
        let mut members: Vec<(String, usize, String)> = Vec::new();
        while !self.skip(b'}') {
            self.skip(b',');
            self.peek();
            let at = self.at;
            let name = self.string()?;
            self.skip(b':');
            let mut value = String::new();
            self.value(&mut value)?;
            members.push((name, at, value));
        }
        members.sort_by(|(a, at, _), (b, bt, _)| {
            a.encode_utf16().cmp(b.encode_utf16()).then(at.cmp(bt))
        });
        let mut previous: Option<&str> = None;
        out.push('{');
        for (name, at, value) in &members {
            if previous == Some(name) {
                return Err(FingerprintError::DuplicateMember { at: *at });
            }
            if previous.is_some() {
                out.push(',');
            }
            previous = Some(name);
            push_string(out, name)?;
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Ok(())
    }

    /// Consumes a string and returns what it means.
    fn string(&mut self) -> Result<String, FingerprintError> {
        self.peek();
        let start = self.at;
        let mut escaped = false;
        let end = self.rest().bytes().skip(1).position(|byte| match byte {
            _ if escaped => {
                escaped = false;
                false
            }
            b'\\' => {
                escaped = true;
                false
            }
            _ => byte == b'"',
        });
        let quoted = self.take(end.map_or(0, |end| end + 2));
        // refuses what the grammar allows and no text can hold: half of a surrogate pair
        serde_json::from_str(quoted).map_err(|error| {
            let (line, column) = position(self.text.as_bytes(), start);
            FingerprintError::NotJson { line, column: column + error.column() }
        })
    }
}

/// `serde_json` escapes as RFC 8785 does: the short forms, `\u00xx` for other controls, no more.
fn push_string(out: &mut String, text: &str) -> Result<(), FingerprintError> {
    out.push_str(&serde_json::to_string(text).map_err(FingerprintError::serialize)?);
    Ok(())
}
