//! What the suite changes in a store URL.

use std::net::{SocketAddr, ToSocketAddrs};

use idempotency::Namespace;
use url::{Url, form_urlencoded};

/// A store URL whose namespace and server can be replaced. Whether it is one is for `connect` to say.
#[derive(Clone)]
pub(crate) struct StoreUrl(String);

impl StoreUrl {
    pub(crate) fn new(url: &str) -> Self {
        Self(url.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether its records end with the process.
    pub(crate) fn is_memory(&self) -> bool {
        self.0.starts_with("memory:")
    }

    /// The same store, with records of their own. Works on the text: a `Url` cannot have several hosts.
    pub(crate) fn in_namespace(&self, namespace: &Namespace) -> Self {
        let (address, query) = self.0.split_once('?').unwrap_or((&self.0, ""));
        let others = form_urlencoded::parse(query.as_bytes());
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(others.filter(|(name, _)| name != "namespace"))
            .append_pair("namespace", namespace.name())
            .finish();
        Self(format!("{address}?{query}"))
    }

    /// Where its one server listens, if a proxy can stand before it: not before several servers, and
    /// not where the certificate names the host.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        let url = Url::parse(&self.0).ok()?;
        let port = match url.scheme() {
            "redis" => 6379,
            "postgres" | "postgresql" => 5432,
            "dynamodb" => return endpoint(&url)?.socket_addrs(|| None).ok()?.pop(),
            _ => return None,
        };
        let host = url.host_str().filter(|host| !host.is_empty() && !host.contains(','))?;
        let mut addresses = (host, url.port().unwrap_or(port)).to_socket_addrs().ok()?;
        addresses.next()
    }

    /// The same store, reached at `address`; none when its URL has no place for that.
    pub(crate) fn through(&self, address: SocketAddr) -> Option<Self> {
        let mut url = Url::parse(&self.0).ok()?;
        if url.scheme() == "dynamodb" {
            let others: Vec<_> = url.query_pairs().into_owned().collect();
            url.query_pairs_mut()
                .clear()
                .extend_pairs(others.iter().filter(|(name, _)| name != "endpoint"))
                .append_pair("endpoint", &format!("http://{address}"));
            return Some(Self(url.into()));
        }
        url.set_host(Some(&address.ip().to_string())).ok()?;
        url.set_port(Some(address.port())).ok()?;
        Some(Self(url.into()))
    }
}

/// Where a `dynamodb:` URL without TLS leads: its host is a table.
fn endpoint(url: &Url) -> Option<Url> {
    let (_, endpoint) = url.query_pairs().find(|(name, _)| name == "endpoint")?;
    Url::parse(&endpoint).ok().filter(|endpoint| endpoint.scheme() == "http")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_replaced_and_the_rest_stays() {
        let namespace = Namespace::new("suite-1").unwrap();
        let cases = [
            ("memory:", "memory:?namespace=suite-1"),
            ("memory:?namespace=mine&capacity=7", "memory:?capacity=7&namespace=suite-1"),
            (
                "redis+cluster://a:1,b:2?timeout_ms=9",
                "redis+cluster://a:1,b:2?timeout_ms=9&namespace=suite-1",
            ),
            ("postgres://u:p@h/db?table=t", "postgres://u:p@h/db?table=t&namespace=suite-1"),
        ];
        for (url, expected) in cases {
            let url = StoreUrl::new(url);
            assert_eq!(url.in_namespace(&namespace).as_str(), expected);
        }
    }

    #[test]
    fn a_proxy_stands_before_one_plain_server_only() {
        let server = |url: &str| StoreUrl::new(url).server();
        assert_eq!(server("redis://127.0.0.1/"), Some("127.0.0.1:6379".parse().unwrap()));
        assert_eq!(server("postgres://u@127.0.0.1:77/db"), Some("127.0.0.1:77".parse().unwrap()));
        let url = "dynamodb://payments?endpoint=http://127.0.0.1:77&region=eu-west-1";
        assert_eq!(server(url), Some("127.0.0.1:77".parse().unwrap()));
        let through = StoreUrl::new(url).through("127.0.0.1:99".parse().unwrap());
        let expected = "dynamodb://payments?region=eu-west-1&endpoint=http%3A%2F%2F127.0.0.1%3A99";
        assert_eq!(through.unwrap().as_str(), expected);
        for url in [
            "memory:",
            "rediss://127.0.0.1/",
            "redis+cluster://127.0.0.1/",
            "dynamodb://payments?region=eu-west-1",
            "dynamodb://payments?endpoint=https://127.0.0.1",
        ] {
            assert_eq!(server(url), None, "{url}");
        }
        let url = StoreUrl::new("redis://u:p@localhost:77/3?namespace=a");
        let through = url.through("127.0.0.1:99".parse().unwrap()).unwrap();
        assert_eq!(through.as_str(), "redis://u:p@127.0.0.1:99/3?namespace=a");
    }
}
