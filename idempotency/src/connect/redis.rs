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
const REPLICAS: &str = "a whole number of replicas from 1";

pub(super) async fn connect(mut url: StoreUrl) -> Result<Connected, ConnectError> {
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
        let of_driver = ["db", "user", "pass"].map(|name| (name, url.take(name)));
        address = with_parameters(&address, of_driver)?;
    }
    url.nothing_left(PARAMETERS)?;
    Ok(store.connect(&address).await?.connected())
}

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
