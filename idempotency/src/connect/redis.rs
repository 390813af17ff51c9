use std::{num::NonZeroU32, time::Duration};

use idempotency_core::{Connected, Namespace};
use idempotency_redis::RedisStore;

use super::{
    ConnectError,
    store_url::{StoreUrl, parameter, refused},
};

const PARAMETERS: &str = "`namespace`, `max_response_bytes`, `max_checkpoint_bytes`, `timeout_ms`, \
     `connect_timeout_ms`, `wait_replicas`, `wait_replicas_ms`; with `redis+unix:` also `db`, `user`, \
     `pass`";
const BYTES: &str = "a whole number of bytes";
const MILLIS: &str = "a whole number of milliseconds from 1";
const DATABASE: &str = "a whole number, as in `redis://HOST/2`";
const SERVICE: &str = "`/SERVICE` or `/SERVICE/DATABASE`, the service as the Sentinels call it";
const REPLICAS: &str = "a whole number of replicas from 1";

pub(super) async fn connect(mut url: StoreUrl) -> Result<Connected, ConnectError> {
    check_address(&url)?;
    let mut store = RedisStore::builder();
    if let Some(name) = url.take("namespace") {
        const ALLOWED: &str = "1 to 64 characters out of a-z A-Z 0-9 _ . -";
        let wrong = |_| refused(parameter("namespace"), "its value is not one", ALLOWED);
        store = store.namespace(Namespace::new(&name).map_err(wrong)?);
    }
    if let Some(bytes) = url.take_number("max_response_bytes", BYTES, |_| true)? {
        store = store.max_response_bytes(bytes);
    }
    if let Some(bytes) = url.take_number("max_checkpoint_bytes", BYTES, |_| true)? {
        store = store.max_checkpoint_bytes(bytes);
    }
    if let Some(timeout) = millis(&mut url, "timeout_ms")? {
        store = store.timeout(timeout);
    }
    if let Some(timeout) = millis(&mut url, "connect_timeout_ms")? {
        store = store.connect_timeout(timeout);
    }
    let patience = millis(&mut url, "wait_replicas_ms")?.unwrap_or(Duration::from_secs(1));
    if let Some(replicas) = url.take_number::<NonZeroU32>("wait_replicas", REPLICAS, |_| true)? {
        store = store.wait_replicas(replicas, patience);
    }
    let mut address = url.address();
    if url.scheme() == "redis+unix" {
        let database = url.take_number::<u32>("db", DATABASE, |_| true)?;
        let [user, password] = ["user", "pass"].map(|name| (name, url.take(name)));
        let of_driver = [("db", database.map(|number| number.to_string())), user, password];
        address = with_parameters(&address, of_driver)?;
    }
    url.nothing_left(PARAMETERS)?;
    Ok(store.connect(&address).await?.connected())
}

/// What the driver would refuse without naming the part.
fn check_address(url: &StoreUrl) -> Result<(), ConnectError> {
    let scheme = url.scheme();
    if scheme.starts_with("rediss") && !HAS_TLS {
        let feature = "redis-tokio-rustls-comp";
        return Err(ConnectError::MissingFeature { scheme: "rediss", feature });
    }
    if matches!(scheme, "redis" | "rediss" | "redis+unix") {
        url.has_one_host("one host; several with `redis+cluster:` or `redis+sentinel:`")?;
    }
    let path = url.path_segments();
    let path: Vec<_> = path.iter().map(String::as_str).collect();
    let is_database = |text: &str| text.parse::<u32>().is_ok();
    match (scheme, path.as_slice()) {
        ("redis+unix", []) => {
            let allowed = "the socket's, as in `redis+unix:///run/redis.sock`";
            return Err(refused("path", "it is missing", allowed));
        }
        ("redis+unix", _) => return Ok(()),
        ("redis" | "rediss" | "redis+cluster" | "rediss+cluster", []) => {}
        ("redis" | "rediss", [database]) if is_database(database) => {}
        ("redis" | "rediss", _) => {
            return Err(refused("path", "it is not a database's number", DATABASE));
        }
        ("redis+cluster" | "rediss+cluster", _) => {
            return Err(refused("path", "a Cluster has only one database", "nothing"));
        }
        (_, [_service]) => {}
        (_, [_service, database]) if is_database(database) => {}
        (_, []) => return Err(refused("path", "it names no service", SERVICE)),
        _ => return Err(refused("path", "it is not a service and a database", SERVICE)),
    }
    url.needs_host()
}

const HAS_TLS: bool =
    cfg!(any(feature = "redis-tokio-rustls-comp", feature = "redis-tls-rustls-webpki-roots"));

/// A socket has no place for them but parameters.
fn with_parameters(
    address: &str,
    parameters: [(&str, Option<String>); 3],
) -> Result<String, ConnectError> {
    let mut url = url::Url::parse(address).map_err(|reason| ConnectError::NotAUrl { reason })?;
    for (name, value) in parameters {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, &value);
        }
    }
    Ok(url.into())
}

fn millis(url: &mut StoreUrl, name: &'static str) -> Result<Option<Duration>, ConnectError> {
    let millis = url.take_number(name, MILLIS, |millis: &u64| *millis > 0)?;
    Ok(millis.map(Duration::from_millis))
}
