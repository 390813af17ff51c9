use idempotency_core::{ErrorKind, Operation, StoreError};
use redis::{ConnectionInfo, IntoConnectionInfo};

/// Where the servers are, read from a URL. Shows nothing of it: it can hold a password.
#[derive(Clone)]
pub(crate) enum Address {
    /// One server, or whatever stands before several and looks like one.
    Single(ConnectionInfo),
    /// Any nodes of a Cluster; they know the others.
    Cluster(Vec<ConnectionInfo>),
    /// Sentinels, who know the primary of `service`. `primary` is how to connect to that, once its
    /// host is known.
    Sentinel { sentinels: Vec<ConnectionInfo>, service: String, primary: Box<ConnectionInfo> },
}

const DEFAULT_SENTINEL_PORT: u16 = 26_379;

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once(':').ok_or_else(|| refused(NO_SCHEME))?;
        match scheme {
            "redis" | "rediss" | "redis+unix" => Ok(Self::Single(one(url)?)),
            "redis+cluster" | "rediss+cluster" => {
                let parts = Parts::of(scheme, rest)?;
                let nodes = parts.hosts().map(|host| one(&parts.url(host, parts.path)));
                Ok(Self::Cluster(nodes.collect::<Result<_, _>>()?))
            }
            "redis+sentinel" | "rediss+sentinel" => {
                let parts = Parts::of(scheme, rest)?;
                let path = parts.path.trim_matches('/');
                let (service, database) = path.split_once('/').unwrap_or((path, ""));
                if service.is_empty() {
                    return Err(refused("it names no service: redis+sentinel://HOST,HOST/SERVICE"));
                }
                let sentinels = parts.hosts().map(|host| parts.sentinel(host));
                Ok(Self::Sentinel {
                    sentinels: sentinels.collect::<Result<_, _>>()?,
                    service: service.to_owned(),
                    primary: Box::new(one(&parts.url("placeholder", &format!("/{database}")))?),
                })
            }
            _ => Err(refused(NO_SCHEME)),
        }
    }
}

#[cfg(feature = "tokio-rustls-comp")]
impl Address {
    /// The same servers, believed by these certificates.
    pub(crate) fn with_certificates(
        self,
        certificates: &redis::TlsCertificates,
    ) -> Result<Self, StoreError> {
        const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----";
        // the driver reads what is no certificate as none: nobody would be believed, for a reason that nobody sees
        let pem = certificates.root_cert.as_deref().unwrap_or(PEM);
        if !pem.windows(PEM.len()).any(|part| part == PEM) {
            return Err(refused("the authority's certificate is not in PEM"));
        }
        let with = |info: ConnectionInfo| {
            if !matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
                return Err(refused("certificates are for the schemes that begin with rediss"));
            }
            let client = redis::Client::build_with_tls(info, certificates.clone());
            let client =
                client.map_err(|error| refused(format!("a certificate: {}", error.category())))?;
            Ok(client.get_connection_info().clone())
        };
        let all =
            |nodes: Vec<ConnectionInfo>| nodes.into_iter().map(with).collect::<Result<Vec<_>, _>>();
        Ok(match self {
            Self::Single(info) => Self::Single(with(info)?),
            Self::Cluster(nodes) => Self::Cluster(all(nodes)?),
            Self::Sentinel { sentinels, service, primary } => Self::Sentinel {
                sentinels: all(sentinels)?,
                service,
                primary: Box::new(with(*primary)?),
            },
        })
    }
}

/// The parts of a URL with several hosts.
struct Parts<'a> {
    scheme: &'a str,
    /// With its `@`, or empty.
    credentials: &'a str,
    hosts: &'a str,
    path: &'a str,
}

impl<'a> Parts<'a> {
    fn of(scheme: &'a str, rest: &'a str) -> Result<Self, StoreError> {
        let rest =
            rest.strip_prefix("//").ok_or_else(|| refused("`//` has to follow the scheme"))?;
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (credentials, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let scheme = if scheme.starts_with("rediss") { "rediss" } else { "redis" };
        if hosts.split(',').any(str::is_empty) {
            return Err(refused("a host is missing"));
        }
        Ok(Self { scheme, credentials, hosts, path })
    }

    fn hosts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.hosts.split(',')
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("{}://{}{host}{path}", self.scheme, self.credentials)
    }

    /// Sentinels are asked without the credentials, which are those of the servers.
    fn sentinel(&self, host: &str) -> Result<ConnectionInfo, StoreError> {
        let has_port = host.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
        let port = if has_port { String::new() } else { format!(":{DEFAULT_SENTINEL_PORT}") };
        one(&format!("{}://{host}{port}", self.scheme))
    }
}

const NO_SCHEME: &str =
    "its scheme is none of redis, rediss, redis+unix, redis+cluster, redis+sentinel";

fn one(url: &str) -> Result<ConnectionInfo, StoreError> {
    let info = url.into_connection_info().map_err(|error| refused(problem(&error)))?;
    if !info.addr().is_supported() {
        return Err(refused("TLS needs the feature `tokio-rustls-comp`, which is off"));
    }
    // TCP_NODELAY stays off, as it is in the driver: what many tasks send while a reply is on its way goes
    // out together, at half the cost for both sides, and a single request never waits
    Ok(info)
}

/// What the driver says first is a fixed text; what it may say after that is part of the URL.
fn problem(error: &redis::RedisError) -> String {
    let words = error.to_string();
    let words = words.split(" - ").next().unwrap_or_default();
    format!("{words}; its form is redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]")
}

fn refused(problem: impl Into<String>) -> StoreError {
    let detail = format!("the Redis URL is refused: {}", problem.into());
    StoreError::new(Operation::Connect, ErrorKind::Invalid, detail).without_effect()
}

#[cfg(test)]
mod tests {
    use redis::ConnectionAddr;

    use super::*;

    fn tcp(info: &ConnectionInfo) -> (String, u16) {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => (host.clone(), *port),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_server_by_tcp_or_by_its_socket() {
        let Ok(Address::Single(info)) = Address::parse("redis://me:secret@db.internal:7000/3")
        else {
            panic!("refused");
        };
        assert_eq!(tcp(&info), ("db.internal".to_owned(), 7_000));
        let settings = info.redis_settings();
        assert_eq!((settings.username(), settings.db()), (Some("me"), 3));
        let Ok(Address::Single(info)) = Address::parse("redis+unix:///run/redis.sock?db=2") else {
            panic!("refused");
        };
        assert!(matches!(info.addr(), ConnectionAddr::Unix(path) if path.ends_with("redis.sock")));
    }

    #[test]
    fn a_cluster_has_several_hosts_with_the_same_credentials() {
        let url = "redis+cluster://:p%40ss@a:7000,b,[::1]:7002";
        let Ok(Address::Cluster(nodes)) = Address::parse(url) else {
            panic!("refused");
        };
        let hosts: Vec<_> = nodes.iter().map(tcp).collect();
        assert_eq!(hosts, [("a".into(), 7_000), ("b".into(), 6_379), ("::1".into(), 7_002)]);
        assert!(nodes.iter().all(|node| node.redis_settings().password() == Some("p@ss")));
    }

    #[test]
    fn sentinels_name_a_service_and_never_get_the_password() {
        let url = "redis+sentinel://u:p@s1,s2:5000/orders/4";
        let Ok(Address::Sentinel { sentinels, service, primary }) = Address::parse(url) else {
            panic!("refused");
        };
        let hosts: Vec<_> = sentinels.iter().map(tcp).collect();
        assert_eq!(hosts, [("s1".into(), 26_379), ("s2".into(), 5_000)]);
        assert!(sentinels.iter().all(|sentinel| sentinel.redis_settings().password().is_none()));
        assert_eq!(service, "orders");
        let settings = primary.redis_settings();
        assert_eq!((settings.password(), settings.db()), (Some("p"), 4));
    }

    #[test]
    fn a_refusal_names_the_part() {
        for (url, part) in [
            ("redis://h/first", "database number"),
            ("redis://", "form is redis://"),
            ("redis+unix:", "path"),
            ("redis://h?protocol=7", "protocol version;"),
        ] {
            let error = Address::parse(url).err().expect(url).to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn refusals_say_what_is_wrong_and_show_nothing_of_the_url() {
        for url in [
            "nothing",
            "http://user:hunter2@h/",
            "redis+cluster:hunter2",
            "redis+cluster://hunter2@a,,b",
            "redis+sentinel://hunter2@a",
            "redis://hunter2@h:notaport",
        ] {
            let error = Address::parse(url).err().expect(url);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
