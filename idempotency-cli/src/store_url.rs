//! What the suite changes in a store URL.

use std::net::{SocketAddr, ToSocketAddrs};

use idempotency::Namespace;
use url::Url;

/// A store URL whose namespace and server can be replaced.
#[derive(Clone, Debug)]
pub(crate) struct StoreUrl(Url);

impl StoreUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, url::ParseError> {
        Url::parse(url).map(Self)
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The same store, with records of their own.
    pub(crate) fn in_namespace(&self, namespace: &Namespace) -> Self {
        let others: Vec<_> = self.0.query_pairs().into_owned().collect();
        let mut url = self.0.clone();
        url.query_pairs_mut()
            .clear()
            .extend_pairs(others.iter().filter(|(name, _)| name != "namespace"))
            .append_pair("namespace", namespace.name());
        Self(url)
    }

    /// Where its one server listens, if a proxy can stand before it: not before several servers, and
    /// not where the certificate names the host.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        let port = match self.0.scheme() {
            "redis" => 6379,
            "postgres" | "postgresql" => 5432,
            "dynamodb" => return self.endpoint()?.socket_addrs(|| None).ok()?.pop(),
            _ => return None,
        };
        let host = self.0.host_str().filter(|host| !host.is_empty() && !host.contains(','))?;
        let mut addresses = (host, self.0.port().unwrap_or(port)).to_socket_addrs().ok()?;
        addresses.next()
    }

    /// Where a `dynamodb:` URL without TLS leads: its host is a table.
    fn endpoint(&self) -> Option<Url> {
        let (_, endpoint) = self.0.query_pairs().find(|(name, _)| name == "endpoint")?;
        Url::parse(&endpoint).ok().filter(|endpoint| endpoint.scheme() == "http")
    }

    /// The same store, reached at `address`; none when its URL has no place for that.
    pub(crate) fn through(&self, address: SocketAddr) -> Option<Self> {
        let mut url = self.0.clone();
        if url.scheme() == "dynamodb" {
            let others: Vec<_> = self.0.query_pairs().into_owned().collect();
            url.query_pairs_mut()
                .clear()
                .extend_pairs(others.iter().filter(|(name, _)| name != "endpoint"))
                .append_pair("endpoint", &format!("http://{address}"));
            return Some(Self(url));
        }
        url.set_host(Some(&address.ip().to_string())).ok()?;
        url.set_port(Some(address.port())).ok()?;
        Some(Self(url))
    }
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
            ("postgres://u:p@h/db?table=t", "postgres://u:p@h/db?table=t&namespace=suite-1"),
        ];
        for (url, expected) in cases {
            let url = StoreUrl::parse(url).unwrap();
            assert_eq!(url.in_namespace(&namespace).as_str(), expected);
        }
    }

    #[test]
    fn a_proxy_stands_before_one_plain_server_only() {
        let server = |url: &str| StoreUrl::parse(url).unwrap().server();
        assert_eq!(server("redis://127.0.0.1/"), Some("127.0.0.1:6379".parse().unwrap()));
        assert_eq!(server("postgres://u@127.0.0.1:77/db"), Some("127.0.0.1:77".parse().unwrap()));
        let url = "dynamodb://payments?endpoint=http://127.0.0.1:77&region=eu-west-1";
        assert_eq!(server(url), Some("127.0.0.1:77".parse().unwrap()));
        let through = StoreUrl::parse(url).unwrap().through("127.0.0.1:99".parse().unwrap());
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
        let url = StoreUrl::parse("redis://u:p@localhost:77/3?namespace=a").unwrap();
        let through = url.through("127.0.0.1:99".parse().unwrap()).unwrap();
        assert_eq!(through.as_str(), "redis://u:p@127.0.0.1:99/3?namespace=a");
    }
}
