use std::{borrow::Cow, str::FromStr};

use url::{ParseError, Url};

use super::ConnectError;

/// A store URL whose parameters are taken out one by one: what nobody takes is an error.
pub(super) struct StoreUrl {
    url: Url,
    /// With a comma before each: the hosts after the first, which a `Url` cannot have.
    more_hosts: String,
    parameters: Vec<(String, String)>,
}

impl StoreUrl {
    pub(super) fn parse(url: &str) -> Result<Self, ConnectError> {
        let (url, more_hosts) = split_hosts(url);
        let url = Url::parse(&url).map_err(unreadable)?;
        for host in more_hosts.split(',').skip(1) {
            let alone = Url::parse(&format!("{}://{host}/", url.scheme())).map_err(unreadable)?;
            if !alone.has_host() {
                return Err(refused("host", "one of them is empty", HOST));
            }
        }
        if url.scheme() != "memory" && url.fragment().is_some() {
            const ALLOWED: &str = "no `#`; in a password or a name it is written `%23`";
            return Err(refused("fragment", "a store URL has none", ALLOWED));
        }
        let parameters: Vec<_> = url.query_pairs().into_owned().collect();
        for (index, (name, _)) in parameters.iter().enumerate() {
            if parameters.iter().skip(index + 1).any(|(n, _)| n == name) {
                let problem = "it is given twice";
                return Err(refused(parameter(name), problem, "each parameter once"));
            }
        }
        Ok(Self { url, more_hosts, parameters })
    }

    pub(super) fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// The URL without parameters, as it came, with all its hosts.
    pub(super) fn address(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        let mut address = String::from(url);
        if !self.more_hosts.is_empty() {
            let begin = address.find("://").map_or(0, |at| at + 3);
            let end = address.get(begin..).and_then(|rest| rest.find('/'));
            address.insert_str(end.map_or(address.len(), |end| begin + end), &self.more_hosts);
        }
        address
    }

    /// The host, when there is nothing else between the scheme and the parameters.
    #[cfg(feature = "dynamodb")]
    pub(super) fn only_host(&self) -> Option<String> {
        let has_more = has_credentials(&self.url)
            || self.url.port().is_some()
            || !matches!(self.url.path(), "" | "/")
            || self.url.fragment().is_some()
            || !self.more_hosts.is_empty();
        self.url.host_str().filter(|_| !has_more).map(str::to_owned)
    }

    /// Refuses whatever stands between the scheme and the parameters, and a fragment.
    pub(super) fn has_only_parameters(&self) -> Result<(), ConnectError> {
        const ALLOWED: &str = "only parameters after the scheme, as in `memory:?capacity=50000`";
        let parts = [
            ("user or password", has_credentials(&self.url)),
            ("host", self.url.has_host()),
            ("path", !matches!(self.url.path(), "" | "/")),
            ("fragment", self.url.fragment().is_some()),
        ];
        match parts.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((part, _)) => Err(refused(*part, "this store has none", ALLOWED)),
        }
    }

    /// The host, which has to be there.
    pub(super) fn needs_host(&self) -> Result<(), ConnectError> {
        match self.url.host_str() {
            Some(host) if !host.is_empty() => Ok(()),
            _ => Err(refused("host", "it is missing", HOST)),
        }
    }

    /// One host, not several.
    pub(super) fn has_one_host(&self, allowed: &'static str) -> Result<(), ConnectError> {
        if self.more_hosts.is_empty() {
            return Ok(());
        }
        Err(refused("host", "there are several", allowed))
    }

    /// What stands between the hosts and the parameters, in parts.
    pub(super) fn path_segments(&self) -> Vec<String> {
        let segments = self.url.path().split('/').filter(|segment| !segment.is_empty());
        segments.map(str::to_owned).collect()
    }

    /// Takes a parameter out.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.parameters.iter().position(|(n, _)| n == name)?;
        Some(self.parameters.swap_remove(at).1)
    }

    /// Takes a whole number out.
    pub(super) fn take_number<N: FromStr>(
        &mut self,
        name: &str,
        allowed: &'static str,
        is_allowed: impl FnOnce(&N) -> bool,
    ) -> Result<Option<N>, ConnectError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = value.parse().ok().filter(is_allowed);
        let refused = || refused(parameter(name), "its value is not one", allowed);
        number.map(Some).ok_or_else(refused)
    }

    /// Refuses the parameters that nobody took.
    pub(super) fn nothing_left(&self, allowed: &'static str) -> Result<(), ConnectError> {
        match self.parameters.first() {
            None => Ok(()),
            Some((name, _)) => Err(refused(parameter(name), "it is not known", allowed)),
        }
    }
}

const HOST: &str = "a name or an address, an IPv6 address in brackets; `@`, `:`, `/`, `?`, `#` and `%` \
     in a user or a password are percent-encoded";

/// Names the part that the parser stumbled over.
fn unreadable(reason: ParseError) -> ConnectError {
    match reason {
        ParseError::InvalidPort => {
            refused("port", "it is not one", "a whole number from 1 to 65535 after the last `:`")
        }
        ParseError::EmptyHost => refused("host", "it is missing", HOST),
        ParseError::IdnaError
        | ParseError::InvalidIpv4Address
        | ParseError::InvalidIpv6Address
        | ParseError::InvalidDomainCharacter => refused("host", "it is not one", HOST),
        _ => ConnectError::NotAUrl { reason },
    }
}

/// The URL with its first host alone, and the other hosts.
fn split_hosts(url: &str) -> (String, String) {
    let begin = url.find("://").map_or(url.len(), |at| at + 3);
    let (scheme, rest) = url.split_at(begin);
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let hosts = authority.rfind('@').map_or(0, |at| at + 1);
    let first = authority.get(hosts..).and_then(|all| all.find(',')).map(|comma| hosts + comma);
    let (authority, more) = authority.split_at(first.unwrap_or(authority.len()));
    (format!("{scheme}{authority}{tail}"), more.to_owned())
}

pub(super) fn refused(
    part: impl Into<Cow<'static, str>>,
    problem: &'static str,
    allowed: &'static str,
) -> ConnectError {
    ConnectError::Part { part: part.into(), problem, allowed }
}

pub(super) fn parameter(name: &str) -> String {
    format!("parameter `{}`", name.escape_debug())
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}
