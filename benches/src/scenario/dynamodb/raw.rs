use std::collections::HashMap;

use idempotency::aws_sdk_dynamodb::{
    Client,
    primitives::Blob,
    types::{AttributeValue, ReturnConsumedCapacity},
};

use crate::load::{Intent, RESPONSE_BYTES};

pub(super) type Item = HashMap<String, AttributeValue>;

/// Raw requests through the store's own client.
#[derive(Clone)]
pub(super) struct Raw {
    client: Client,
    table: String,
    /// A record of the store in progress.
    record: Item,
    /// The same in bytes, as the service counts them.
    item_bytes: usize,
}

/// What a raw claim puts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// The item that the store puts, under another key: the request of ours without our code.
    SameItem,
    /// The cheapest item of as many bytes: one attribute beside the key and what the service deletes by.
    OneAttribute,
}

const DELETE_AFTER: &str = "9999999999";

impl Raw {
    /// Writes as much as `record`.
    pub(super) fn like(client: Client, table: &str, record: &Item) -> Self {
        let (record, item_bytes) = (record.clone(), bytes(record));
        Self { client, table: table.to_owned(), record, item_bytes }
    }

    /// As long as a storage key of ours.
    pub(super) fn key(intent: &Intent) -> AttributeValue {
        let (scope, key) = (intent.key.scope_name().unwrap_or_default(), intent.key.key());
        AttributeValue::S(format!("rawrequests/{scope}/{key}"))
    }

    fn item(&self, intent: &Intent, shape: Shape) -> anyhow::Result<Item> {
        let mut item = match shape {
            Shape::SameItem => self.record.clone(),
            Shape::OneAttribute => {
                let delete_after = AttributeValue::N(DELETE_AFTER.to_owned());
                Item::from([("delete_after_s".to_owned(), delete_after)])
            }
        };
        item.insert("pk".to_owned(), Self::key(intent));
        if let Shape::OneAttribute = shape {
            let left = self.item_bytes - bytes(&item) - "data".len();
            item.insert("data".to_owned(), AttributeValue::B(Blob::new(vec![b'p'; left])));
        }
        anyhow::ensure!(bytes(&item) == self.item_bytes, "another size");
        Ok(item)
    }

    pub(super) async fn claim(&self, intent: &Intent, shape: Shape) -> anyhow::Result<()> {
        let item = self.item(intent, shape)?;
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.condition_expression("attribute_not_exists(pk)").send().await?;
        Ok(())
    }

    pub(super) async fn complete(&self, intent: &Intent) -> anyhow::Result<()> {
        let response = AttributeValue::B(Blob::new(vec![b'r'; RESPONSE_BYTES]));
        let update = self.client.update_item().table_name(&self.table).key("pk", Self::key(intent));
        let update = update
            // the word is one of the service's own
            .update_expression("SET #response = :response")
            .expression_attribute_names("#response", "response")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_values(":response", response);
        update.send().await?;
        Ok(())
    }

    pub(super) async fn get(&self, intent: &Intent) -> anyhow::Result<()> {
        let get = self.client.get_item().table_name(&self.table).key("pk", Self::key(intent));
        let item = get.consistent_read(true).send().await?.item.unwrap_or_default();
        anyhow::ensure!(item.contains_key("response"), "no response");
        Ok(())
    }

    /// The units that a put of this item takes, by the service's own account.
    pub(super) async fn units_of(&self, item: Item) -> anyhow::Result<f64> {
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        let put = put.return_consumed_capacity(ReturnConsumedCapacity::Total).send().await?;
        let units = put.consumed_capacity.and_then(|consumed| consumed.capacity_units);
        units.ok_or_else(|| anyhow::anyhow!("the service does not say what it consumed"))
    }
}

/// The item at a place.
pub(super) async fn item(client: &Client, table: &str, place: &str) -> anyhow::Result<Item> {
    let place = AttributeValue::S(place.to_owned());
    let get = client.get_item().table_name(table).key("pk", place).consistent_read(true);
    get.send().await?.item.ok_or_else(|| anyhow::anyhow!("no item"))
}

/// What the service counts: names and values, a number as a byte for two digits and one more.
fn bytes(item: &Item) -> usize {
    let value = |value: &AttributeValue| match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(blob) => blob.as_ref().len(),
        AttributeValue::N(number) => number.len().div_ceil(2) + 1,
        _ => 1,
    };
    item.iter().map(|(name, attribute)| name.len() + value(attribute)).sum()
}
