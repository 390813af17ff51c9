use std::{str::FromStr, time::Duration};

use serde::Deserialize;

/// A test source: it says what becomes of the payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Source {
    Visa,
    CardDeclined,
    UnavailableOnce,
    InternalError,
    RateLimitedOnce,
    Slow(Duration),
    Panic,
    Large(usize),
    Cookies,
    Binary,
    Empty,
    Stream(usize),
}

/// A test source must not keep the service busy for ever, nor fill its memory.
const MAX_SLOW_MS: u64 = 600_000;
const MAX_LARGE_BYTES: usize = 64 << 20;

const KNOWN: &str = "tok_visa, tok_card_declined, tok_unavailable_once, tok_internal_error, \
                     tok_rate_limited_once, tok_slow_MS, tok_panic, tok_large_BYTES, tok_cookies, \
                     tok_binary, tok_empty and tok_stream_N";

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "tok_visa" => Self::Visa,
            "tok_card_declined" => Self::CardDeclined,
            "tok_unavailable_once" => Self::UnavailableOnce,
            "tok_internal_error" => Self::InternalError,
            "tok_rate_limited_once" => Self::RateLimitedOnce,
            "tok_panic" => Self::Panic,
            "tok_cookies" => Self::Cookies,
            "tok_binary" => Self::Binary,
            "tok_empty" => Self::Empty,
            _ => return Self::with_number(text).ok_or_else(unknown),
        })
    }
}

impl Source {
    fn with_number(text: &str) -> Option<Self> {
        let (name, number) = text.rsplit_once('_')?;
        match name {
            "tok_slow" => {
                let millis = number.parse().ok().filter(|ms| *ms <= MAX_SLOW_MS)?;
                Some(Self::Slow(Duration::from_millis(millis)))
            }
            "tok_large" => {
                number.parse().ok().filter(|bytes| *bytes <= MAX_LARGE_BYTES).map(Self::Large)
            }
            "tok_stream" => number.parse().ok().map(Self::Stream),
            _ => None,
        }
    }
}

fn unknown() -> String {
    format!("unknown source; there are {KNOWN}")
}

impl TryFrom<String> for Source {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_say_what_becomes_of_a_payment() {
        assert_eq!("tok_visa".parse(), Ok(Source::Visa));
        let slow = Source::Slow(Duration::from_millis(250));
        assert_eq!("tok_slow_250".parse(), Ok(slow));
        assert_eq!("tok_large_0".parse(), Ok(Source::Large(0)));
        for bad in ["", "tok_", "tok_amex", "tok_slow", "tok_slow_x", "tok_large_99999999999"] {
            let refused = bad.parse::<Source>().unwrap_err();
            assert!(refused.contains("tok_visa"), "{refused}");
        }
    }
}
