use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Which response headers are stored and replayed: all but a list.
///
/// | not stored | why |
/// |---|---|
/// | `Connection` and what it names, `Keep-Alive`, `Proxy-Connection`, `TE`, `Trailer`, `Transfer-Encoding`, `Upgrade`, `Content-Length` | they belong to one connection; the length is counted anew. Cannot be allowed |
/// | `Set-Cookie`, `Set-Cookie2` | a cookie of then would overwrite one of now |
/// | `WWW-Authenticate`, `Proxy-Authenticate`, `Authentication-Info`, `Proxy-Authentication-Info` | they belong to one exchange |
/// | `Date`, `Age`, `Server-Timing` | they tell of one answer |
/// | `traceparent`, `tracestate`, `baggage`, `b3`, `X-B3-*`, `X-Request-Id`, `X-Correlation-Id`, `X-Trace-Id`, `X-Amzn-Trace-Id`, `X-Cloud-Trace-Context`, `Request-Id` | they name one request |
/// | `RateLimit`, `RateLimit-*`, `X-RateLimit-*`, `X-Rate-Limit-*` | they count now, not then |
///
/// The same rule holds for trailers. Lines keep their order per name and are never joined or split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHeaders {
    denied: Cow<'static, [HeaderName]>,
    denied_prefixes: Cow<'static, [&'static str]>,
    allowed: Vec<HeaderName>,
}

/// Of one connection or of its framing; replaying these breaks it.
static HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

static DENIED: [HeaderName; 20] = [
    header::SET_COOKIE,
    HeaderName::from_static("set-cookie2"),
    header::WWW_AUTHENTICATE,
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("proxy-authentication-info"),
    header::DATE,
    header::AGE,
    HeaderName::from_static("server-timing"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
    HeaderName::from_static("b3"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-correlation-id"),
    HeaderName::from_static("x-trace-id"),
    HeaderName::from_static("x-amzn-trace-id"),
    HeaderName::from_static("x-cloud-trace-context"),
    HeaderName::from_static("request-id"),
    HeaderName::from_static("ratelimit"),
];

const DENIED_PREFIXES: &[&str] = &["ratelimit-", "x-ratelimit-", "x-rate-limit-", "x-b3-"];

impl StoredHeaders {
    /// Stores this header too, whatever the list says. Without effect on headers of the connection.
    #[must_use]
    pub fn allow(mut self, name: HeaderName) -> Self {
        self.denied.to_mut().retain(|denied| *denied != name);
        self.allowed.push(name);
        self
    }

    /// Does not store this header.
    #[must_use]
    pub fn deny(mut self, name: HeaderName) -> Self {
        self.allowed.retain(|allowed| *allowed != name);
        self.denied.to_mut().push(name);
        self
    }

    /// The lines of `headers` that are stored.
    pub(crate) fn of<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
        let named: Vec<&str> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(str::trim))
            .collect();
        headers.iter().filter(move |(name, _)| {
            self.is_stored(name) && !named.iter().any(|n| n.eq_ignore_ascii_case(name.as_str()))
        })
    }

    fn is_stored(&self, name: &HeaderName) -> bool {
        if HOP_BY_HOP.contains(name) {
            return false;
        }
        let denied = self.denied.contains(name)
            || self.denied_prefixes.iter().any(|prefix| name.as_str().starts_with(prefix));
        !denied || self.allowed.contains(name)
    }
}

impl Default for StoredHeaders {
    fn default() -> Self {
        Self {
            denied: Cow::Borrowed(&DENIED),
            denied_prefixes: Cow::Borrowed(DENIED_PREFIXES),
            allowed: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(filter: &StoredHeaders, lines: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_static(name);
            headers.append(name, HeaderValue::from_static(value));
        }
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        filter.of(&headers).map(line).collect()
    }

    /// Kind of fault: what belongs to one exchange or one connection is sent again in another
    /// (H-36).
    #[test]
    fn what_belongs_to_one_exchange_is_not_stored_unless_it_is_allowed() {
        let lines = [
            ("set-cookie", "a=1"),
            ("x-ratelimit-remaining", "4"),
            ("connection", "x-once, close"),
            ("x-once", "1"),
            ("content-length", "3"),
            ("location", "/a"),
        ];
        assert_eq!(stored(&StoredHeaders::default(), &lines), ["location: /a"]);
        let more = StoredHeaders::default()
            .allow(header::SET_COOKIE)
            .allow(HeaderName::from_static("x-ratelimit-remaining"))
            .allow(header::CONTENT_LENGTH)
            .deny(header::LOCATION);
        assert_eq!(stored(&more, &lines), ["set-cookie: a=1", "x-ratelimit-remaining: 4"]);
        assert_eq!(stored(&more.deny(header::SET_COOKIE), &lines), ["x-ratelimit-remaining: 4"]);
    }
}
