//! Creating the table, and looking whether it is as it should be.

mod keys;
mod text;

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::{
        BillingMode, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndexUpdate, IndexStatus,
        KeyType, TableDescription, TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
    },
};
use idempotency_core::{ErrorKind, Operation, Schema, StoreError};

use self::{
    keys::{definitions, incomplete, index, index_key_schema, key_parts, key_schema, keys_only},
    text::{command_line, template},
};
use crate::{Attribute, DynamoDbStore, call::Call, error::classify, layout::Layout, store::Inner};

/// A table takes seconds, an index of a large table longer: `create` can be called again.
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(250);

/// The table, its time to live, and the list index where one is asked for.
#[async_trait]
impl Schema for DynamoDbStore {
    /// A `CloudFormation` template, and the same as calls of the AWS command line.
    fn describe(&self) -> String {
        let layout = &self.inner.layout;
        format!("{}\n{}", template(layout), command_line(layout))
    }

    async fn create(&self) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let call = inner.call(Operation::Schema);
        let work = async {
            let table = match inner.describe(&call).await? {
                Some(table) => table,
                None => inner.create_table(&call).await?,
            };
            check_key(&inner.layout, &table)?;
            if !has_index(&inner.layout, &table) {
                inner.create_index(&call).await?;
            }
            while !is_ready(&inner.layout, inner.describe(&call).await?.as_ref()) {
                tokio::time::sleep(POLL).await;
            }
            inner.switch_time_to_live_on(&call).await
        };
        call.within(PATIENCE, work).await
    }
}

impl Inner {
    /// The table, where there is one.
    pub(crate) async fn describe(
        &self,
        call: &Call,
    ) -> Result<Option<TableDescription>, StoreError> {
        let request = self
            .client
            .describe_table()
            .table_name(&self.layout.table)
            .customize()
            .interceptor(call.reads());
        match request.send().await {
            Ok(reply) => Ok(reply.table),
            Err(error) if code(&error) == Some("ResourceNotFoundException") => Ok(None),
            Err(error) => Err(call.failed(classify(call.operation, &error))),
        }
    }

    /// Creates the table, unless somebody else just does.
    async fn create_table(&self, call: &Call) -> Result<TableDescription, StoreError> {
        let layout = &self.layout;
        let created = self
            .client
            .create_table()
            .table_name(&layout.table)
            .billing_mode(BillingMode::PayPerRequest)
            .set_key_schema(Some(key_schema(layout)?))
            .set_attribute_definitions(Some(definitions(layout)?))
            .set_global_secondary_indexes(match &layout.index {
                None => None,
                Some(name) => Some(vec![index(layout, name)?]),
            })
            .customize()
            .interceptor(call.writes())
            .send()
            .await;
        match created {
            Ok(reply) => reply.table_description.ok_or_else(|| {
                StoreError::new(call.operation, ErrorKind::Unexpected, "a reply without its table")
            }),
            Err(error) if code(&error) == Some("ResourceInUseException") => {
                let missing = || {
                    let detail = "the table is created and deleted at the same time";
                    StoreError::new(call.operation, ErrorKind::Unavailable, detail)
                };
                self.describe(call).await?.ok_or_else(missing)
            }
            Err(error) => Err(call.failed(classify(call.operation, &error))),
        }
    }

    async fn create_index(&self, call: &Call) -> Result<(), StoreError> {
        let layout = &self.layout;
        let Some(name) = &layout.index else {
            return Ok(());
        };
        let create = CreateGlobalSecondaryIndexAction::builder()
            .index_name(name)
            .set_key_schema(Some(index_key_schema(layout)?))
            .projection(keys_only())
            .build()
            .map_err(incomplete)?;
        let created = self
            .client
            .update_table()
            .table_name(&layout.table)
            .set_attribute_definitions(Some(definitions(layout)?))
            .global_secondary_index_updates(
                GlobalSecondaryIndexUpdate::builder().create(create).build(),
            )
            .customize()
            .interceptor(call.writes())
            .send()
            .await;
        match created {
            Ok(_) => Ok(()),
            // somebody else just does
            Err(error) if code(&error) == Some("ResourceInUseException") => Ok(()),
            Err(error) => Err(call.failed(classify(call.operation, &error))),
        }
    }

    /// Whether the table deletes what has expired, and the attribute that tells it when.
    pub(crate) async fn time_to_live(
        &self,
        call: &Call,
    ) -> Result<(bool, Option<String>), StoreError> {
        let request = self
            .client
            .describe_time_to_live()
            .table_name(&self.layout.table)
            .customize()
            .interceptor(call.reads());
        let reply = request.send().await;
        let reply = reply.map_err(|error| call.failed(classify(call.operation, &error)))?;
        let Some(found) = reply.time_to_live_description else {
            return Ok((false, None));
        };
        let on = matches!(
            found.time_to_live_status,
            Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
        );
        Ok((on, found.attribute_name))
    }

    async fn switch_time_to_live_on(&self, call: &Call) -> Result<(), StoreError> {
        let name = self.layout.name(Attribute::DeleteAfter);
        match self.time_to_live(call).await? {
            (true, Some(attribute)) if attribute != name => {
                let detail = "the table's time to live is set on another attribute: give that name \
                    to the attribute DeleteAfter, or set it on this one";
                return Err(call.failed(StoreError::new(
                    call.operation,
                    ErrorKind::Invalid,
                    detail,
                )));
            }
            (true, _) => return Ok(()),
            (false, _) => {}
        }
        let specification = TimeToLiveSpecification::builder()
            .enabled(true)
            .attribute_name(name)
            .build()
            .map_err(incomplete)?;
        let request = self
            .client
            .update_time_to_live()
            .table_name(&self.layout.table)
            .time_to_live_specification(specification)
            .customize()
            .interceptor(call.writes());
        match request.send().await {
            Ok(_) => Ok(()),
            // somebody else has just done it
            Err(_) if self.time_to_live(call).await?.0 => Ok(()),
            Err(error) => Err(call.failed(classify(call.operation, &error))),
        }
    }
}

fn code<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> Option<&str> {
    error.as_service_error().and_then(ProvideErrorMetadata::code)
}

/// # Errors
/// The table has another key than the store is told.
pub(crate) fn check_key(layout: &Layout, table: &TableDescription) -> Result<(), StoreError> {
    let found: Vec<_> = table
        .key_schema()
        .iter()
        .map(|element| (element.attribute_name(), element.key_type().clone()))
        .collect();
    if found == key_parts(layout) {
        return Ok(());
    }
    let names = |parts: &[(&str, KeyType)]| {
        parts.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
    };
    let detail = format!(
        "the table's key is {}, and the store is told {}: use the table's names",
        names(&found),
        names(&key_parts(layout))
    );
    Err(StoreError::new(Operation::Schema, ErrorKind::Invalid, detail).without_effect())
}

pub(crate) fn has_index(layout: &Layout, table: &TableDescription) -> bool {
    let Some(wanted) = &layout.index else {
        return true;
    };
    table.global_secondary_indexes().iter().any(|index| index.index_name() == Some(wanted))
}

fn is_ready(layout: &Layout, table: Option<&TableDescription>) -> bool {
    table.is_some_and(|table| {
        let index_is_ready = layout.index.as_ref().is_none_or(|wanted| {
            table.global_secondary_indexes().iter().any(|index| {
                index.index_name() == Some(wanted)
                    && index.index_status() == Some(&IndexStatus::Active)
            })
        });
        table.table_status() == Some(&TableStatus::Active) && index_is_ready
    })
}
