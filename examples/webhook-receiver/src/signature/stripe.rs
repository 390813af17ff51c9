//! Stripe: `TIMESTAMP.BODY`, and one header `t=TIMESTAMP,v1=HEX,v1=HEX`.

use http::HeaderMap;

use super::{Signed, line};

pub(super) fn read(headers: &HeaderMap) -> Option<Signed<'_>> {
    let members = line(headers, "stripe-signature")?.split(',').filter_map(|m| m.split_once('='));
    let named = |name| members.clone().filter(move |(n, _)| *n == name).map(|(_, value)| value);
    let timestamp = named("t").next()?;
    let signatures: Vec<_> = named("v1").filter_map(bytes_of_hex).collect();
    let prefix = format!("{timestamp}.");
    (!signatures.is_empty()).then_some(Signed { timestamp, prefix, signatures })
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok()).collect()
}
