use std::time::Duration;

use idempotency_core::{Connected, Namespace};
use idempotency_dynamodb::{DynamoDbStore, NameError};

use super::{
    ConnectError, SetUp,
    store_url::{StoreUrl, parameter, refused},
};

const PARAMETERS: &str = "`region`, `endpoint`, `namespace`, `create`, `skew_bound_ms`, \
     `partition_key`, `sort_key`, `index`, `max_response_bytes`, `max_checkpoint_bytes`, `timeout_ms`";
const TABLE: &str = "a table name of 3 to 255 characters out of a-z A-Z 0-9 _ . -, as in \
     `dynamodb://payments?region=eu-west-1`";
const NAME: &str = "an attribute name of 1 to 255 bytes that no other attribute has";
const INDEX: &str = "an index name of 3 to 255 characters out of a-z A-Z 0-9 _ . -";
const ENDPOINT: &str = "a URL that begins with `http://` or `https://`";
const BYTES: &str = "a whole number of bytes";
const MILLIS: &str = "a whole number of milliseconds from 1";

/// The value of the sort key, where there is one: it tells the records from other items of the table.
const SORT_VALUE: &str = "idempotency";

pub(super) async fn connect(mut url: StoreUrl, set_up: SetUp) -> Result<Connected, ConnectError> {
    let table = url.only_host().ok_or_else(|| refused("host", "it is not one", TABLE))?;
    let mut store =
        DynamoDbStore::builder(&table).map_err(|_| refused("host", "it is not one", TABLE))?;
    if let Some(name) = url.take("partition_key") {
        store = store.partition_key(&name).map_err(wrong_name("partition_key", NAME))?;
    }
    if let Some(name) = url.take("sort_key") {
        store = store.sort_key(&name, SORT_VALUE).map_err(wrong_name("sort_key", NAME))?;
    }
    if let Some(name) = url.take("index") {
        store = store.index(&name).map_err(wrong_name("index", INDEX))?;
    }
    if let Some(name) = url.take("namespace") {
        const ALLOWED: &str = "1 to 64 characters out of a-z A-Z 0-9 _ . -";
        let wrong = |_| refused(parameter("namespace"), "its value is not one", ALLOWED);
        store = store.namespace(Namespace::new(&name).map_err(wrong)?);
    }
    if let Some(region) = url.take("region") {
        store = store.region(region);
    }
    let endpoint = url.take("endpoint");
    let is_plain = endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    if let Some(endpoint) = endpoint {
        let is_url = ["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme));
        if !is_url || url::Url::parse(&endpoint).is_err() {
            return Err(refused(parameter("endpoint"), "its value is not one", ENDPOINT));
        }
        store = store.endpoint(endpoint);
    }
    if let Some(bound) = url.take_number("skew_bound_ms", MILLIS, |millis: &u64| *millis > 0)? {
        store = store.skew_bound(Duration::from_millis(bound));
    }
    if let Some(timeout) = url.take_number("timeout_ms", MILLIS, |millis: &u64| *millis > 0)? {
        store = store.timeout(Duration::from_millis(timeout));
    }
    if let Some(bytes) = url.take_number("max_response_bytes", BYTES, |_| true)? {
        store = store.max_response_bytes(bytes);
    }
    if let Some(bytes) = url.take_number("max_checkpoint_bytes", BYTES, |_| true)? {
        store = store.max_checkpoint_bytes(bytes);
    }
    let create = match url.take("create").as_deref() {
        None | Some("off" | "false") => false,
        Some("on" | "true") => true,
        Some(_) => {
            return Err(refused(parameter("create"), "its value is not one", "`on` or `off`"));
        }
    };
    url.nothing_left(PARAMETERS)?;
    if !is_plain && !cfg!(feature = "aws-config") {
        return Err(ConnectError::MissingFeature {
            scheme: "dynamodb (without an endpoint by http)",
            feature: "aws-config",
        });
    }
    if set_up == SetUp::Unchecked && !create {
        return Ok(store.connect_unchecked().await?.connected());
    }
    Ok(store.create(create).connect().await?.connected())
}

fn wrong_name(name: &'static str, allowed: &'static str) -> impl FnOnce(NameError) -> ConnectError {
    move |_| refused(parameter(name), "its value is not one", allowed)
}
