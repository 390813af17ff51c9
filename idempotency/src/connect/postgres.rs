use std::time::Duration;

use idempotency_core::{Namespace, Schema};
use idempotency_postgres::{NameError, PostgresStore};

use super::{
    ConnectError, SetUp,
    store_url::{StoreUrl, parameter, refused},
};

const PARAMETERS: &str = "`table`, `schema`, `namespace`, `create`, `max_response_bytes`, \
     `max_checkpoint_bytes`, `max_connections`, `timeout_ms`, `lock_timeout_ms`, `group_commit`, \
     `listen`, and the driver's `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `application_name`, \
     `options`, `statement-cache-capacity`";
const DRIVERS: [&str; 7] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
    "options",
    "statement-cache-capacity",
];
const NAME: &str = "1 to 63 bytes (a table: 49) without `$` and control characters";
const BYTES: &str = "a whole number of bytes";
const MILLIS: &str = "a whole number of milliseconds from 1";
const CONNECTIONS: &str = "a whole number of connections from 1";

pub(super) async fn connect(
    mut url: StoreUrl,
    set_up: SetUp,
) -> Result<PostgresStore, ConnectError> {
    let mut store = PostgresStore::builder();
    if let Some(table) = url.take("table") {
        store = store.table(&table).map_err(wrong_name("table"))?;
    }
    if let Some(schema) = url.take("schema") {
        store = store.schema(&schema).map_err(wrong_name("schema"))?;
    }
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
    if let Some(most) = url.take_number("max_connections", CONNECTIONS, |most: &u32| *most > 0)? {
        store = store.max_connections(most);
    }
    if let Some(timeout) = millis(&mut url, "timeout_ms")? {
        store = store.timeout(timeout);
    }
    if let Some(timeout) = millis(&mut url, "lock_timeout_ms")? {
        store = store.lock_timeout(timeout);
    }
    if let Some(on) = switch(&mut url, "group_commit")? {
        store = store.group_commit(on);
    }
    if let Some(on) = switch(&mut url, "listen")? {
        store = store.listen(on);
    }
    let create = switch(&mut url, "create")?.unwrap_or(false);
    let of_driver: Vec<_> =
        DRIVERS.iter().filter_map(|name| Some((*name, url.take(name)?))).collect();
    url.nothing_left(PARAMETERS)?;
    if let Some((_, mode)) = of_driver.iter().find(|(name, _)| *name == "sslmode") {
        check_tls(mode)?;
    }
    url.has_one_host("one host")?;
    if url.path_segments().len() > 1 {
        return Err(refused("path", "it is not a database's name", "`/DATABASE`"));
    }
    let address = with_parameters(&url.address(), &of_driver)?;
    if create {
        let store = store.build_lazy(&address)?;
        store.create().await?;
        return Ok(store);
    }
    if set_up == SetUp::Unchecked {
        return Ok(store.build_lazy(&address)?);
    }
    Ok(store.connect(&address).await?)
}

fn with_parameters(address: &str, parameters: &[(&str, String)]) -> Result<String, ConnectError> {
    let mut url = url::Url::parse(address).map_err(|reason| ConnectError::NotAUrl { reason })?;
    if !parameters.is_empty() {
        url.query_pairs_mut().extend_pairs(parameters);
    }
    Ok(url.into())
}

/// What the driver would refuse only when it connects.
fn check_tls(mode: &str) -> Result<(), ConnectError> {
    const HAS_TLS: bool =
        cfg!(any(feature = "tls-rustls-ring-native-roots", feature = "tls-rustls-ring-webpki"));
    const MODES: &str = "`disable`, `allow`, `prefer`, `require`, `verify-ca`, `verify-full`";
    const FEATURE: &str = "the feature `tls-rustls-ring-webpki` or `tls-rustls-ring-native-roots`, \
         or the modes `disable`, `allow` and `prefer`";
    match mode {
        "disable" | "allow" | "prefer" => Ok(()),
        "require" | "verify-ca" | "verify-full" if HAS_TLS => Ok(()),
        "require" | "verify-ca" | "verify-full" => {
            Err(refused(parameter("sslmode"), "it needs TLS, which is not built in", FEATURE))
        }
        _ => Err(refused(parameter("sslmode"), "its value is not one", MODES)),
    }
}

fn wrong_name(name: &'static str) -> impl FnOnce(NameError) -> ConnectError {
    move |_| refused(parameter(name), "its value is not a name", NAME)
}

fn millis(url: &mut StoreUrl, name: &'static str) -> Result<Option<Duration>, ConnectError> {
    let millis = url.take_number(name, MILLIS, |millis: &u64| *millis > 0)?;
    Ok(millis.map(Duration::from_millis))
}

fn switch(url: &mut StoreUrl, name: &'static str) -> Result<Option<bool>, ConnectError> {
    match url.take(name).as_deref() {
        None => Ok(None),
        Some("on" | "true") => Ok(Some(true)),
        Some("off" | "false") => Ok(Some(false)),
        Some(_) => Err(refused(parameter(name), "its value is not one", "`on` or `off`")),
    }
}
