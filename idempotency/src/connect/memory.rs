use idempotency_core::{Connected, Namespace};
use idempotency_memory::MemoryStore;

use super::{
    ConnectError,
    store_url::{StoreUrl, parameter, refused},
};

const PARAMETERS: &str = "`capacity`, `max_response_bytes`, `max_checkpoint_bytes`, `namespace`";
const RECORDS: &str = "a whole number of records from 1";
const BYTES: &str = "a whole number of bytes";

#[expect(
    clippy::unused_async,
    reason = "every backend connects in the same way, and the others have to wait for a server"
)]
pub(super) async fn connect(mut url: StoreUrl) -> Result<Connected, ConnectError> {
    url.has_only_parameters()?;
    let mut store = MemoryStore::builder();
    if let Some(capacity) = url.take_number("capacity", RECORDS, |records| *records > 0)? {
        store = store.capacity(capacity);
    }
    if let Some(bytes) = url.take_number("max_response_bytes", BYTES, |_| true)? {
        store = store.max_response_bytes(bytes);
    }
    if let Some(bytes) = url.take_number("max_checkpoint_bytes", BYTES, |_| true)? {
        store = store.max_checkpoint_bytes(bytes);
    }
    // every store is a fresh one, so the name keeps nothing apart; a wrong one is an error all the same
    if let Some(name) = url.take("namespace")
        && Namespace::new(&name).is_err()
    {
        const ALLOWED: &str = "1 to 64 characters out of a-z A-Z 0-9 _ . -";
        let namespace = parameter("namespace");
        return Err(refused(namespace, "its value is not one", ALLOWED));
    }
    url.nothing_left(PARAMETERS)?;
    Ok(store.build().connected())
}
