//! The whole suite, on the emulator and on whatever `DYNAMODB_URL` names.

use std::{net::SocketAddr, time::Duration};

use idempotency_conformance::{
    Fixture, Harness, HarnessError, RawRecord, Written, unique_namespace,
};
use idempotency_core::{Connected, IdempotencyKey, Namespace, Sharing, StoreProfile, Survives};
use idempotency_dynamodb::{
    DynamoDbStore,
    aws_sdk_dynamodb::{Client, types::AttributeValue},
};

use crate::support::{SKEW_BOUND, TABLE, builder, connect, emulator};

/// The store on the emulator.
struct Emulator;

impl Harness for Emulator {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let namespace = unique_namespace();
        let store = connect(emulator().address(), &namespace).await;
        Ok(Fixture::new(store.connected(), namespace))
    }

    fn profile(&self) -> StoreProfile {
        let mut profile = StoreProfile::new("dynamodb");
        // 400 KB less the longest key, the names and the other attributes
        profile.max_response_bytes = 407_789;
        profile.skew_bound = SKEW_BOUND;
        profile.remembers_not_started = true;
        profile.expires_by_itself = true;
        profile.sharing = Sharing::Server;
        profile.survives = Survives::ServerCrash;
        profile
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        Ok(Some(connect(emulator().address(), namespace).await.connected()))
    }

    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let store = connect(emulator().address(), namespace).await;
        write(store.client(), namespace, key, raw).await.map(Some)
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(emulator().address())
    }

    async fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let store = builder(namespace)
            .endpoint(format!("http://{address}"))
            .timeout(Duration::from_secs(1))
            .connect()
            .await?;
        Ok(Some(store.connected()))
    }
}

/// Puts something at the place of a key, past the store. The place of an item is its key, so the item
/// of another key cannot be there.
async fn write(
    client: &Client,
    namespace: &Namespace,
    key: &IdempotencyKey,
    raw: RawRecord<'_>,
) -> Result<Written, HarnessError> {
    let place = AttributeValue::S(namespace.storage_key(key).as_str().to_owned());
    let item = client.get_item().table_name(TABLE).key("pk", place.clone()).consistent_read(true);
    let mut item = item.send().await?.item.unwrap_or_default();
    match raw {
        RawRecord::RecordOf(_) => return Ok(Written::Impossible),
        RawRecord::Foreign => {
            item.clear();
            item.insert("pk".to_owned(), place);
            item.insert("visits".to_owned(), AttributeValue::N("7".to_owned()));
        }
        RawRecord::Truncated => {
            item.remove("claimed_at_ms").ok_or("no record")?;
        }
        RawRecord::NewerFormat => {
            item.insert("format".to_owned(), AttributeValue::N("2".to_owned()))
                .ok_or("no record")?;
        }
    }
    client.put_item().table_name(TABLE).set_item(Some(item)).send().await?;
    Ok(Written::Done)
}

mod emulated {
    idempotency_conformance::conformance_tests!(crate::conformance::Emulator);
}
