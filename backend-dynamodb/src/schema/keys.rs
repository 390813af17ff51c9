//! The keys of the table and of the list index, as the driver wants them.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use idempotency_core::{ErrorKind, Operation, StoreError};

use crate::{Attribute, layout::Layout};

/// The driver misses a part of a request; none of ours lacks one.
pub(super) fn incomplete(source: aws_sdk_dynamodb::error::BuildError) -> StoreError {
    StoreError::new(Operation::Schema, ErrorKind::Unexpected, "an incomplete request")
        .without_effect()
        .with_source(source)
}

/// Name, type in the template, and role of the key's parts.
pub(super) fn key_parts(layout: &Layout) -> Vec<(&str, KeyType)> {
    let mut parts = vec![(layout.partition_key.as_str(), KeyType::Hash)];
    parts.extend(layout.sort_key.as_ref().map(|key| (key.name.as_str(), KeyType::Range)));
    parts
}

/// The list index is partitioned by namespace and shard, and sorted by age.
pub(super) fn index_parts(layout: &Layout) -> [(&str, KeyType, ScalarAttributeType); 2] {
    [
        (layout.name(Attribute::Unsettled), KeyType::Hash, ScalarAttributeType::S),
        (layout.name(Attribute::FirstClaimedAt), KeyType::Range, ScalarAttributeType::N),
    ]
}

pub(super) fn typed_parts(layout: &Layout) -> Vec<(&str, ScalarAttributeType)> {
    let mut parts: Vec<_> =
        key_parts(layout).into_iter().map(|(name, _)| (name, ScalarAttributeType::S)).collect();
    if layout.index.is_some() {
        parts.extend(index_parts(layout).map(|(name, _, scalar)| (name, scalar)));
    }
    parts
}

fn element(name: &str, role: KeyType) -> Result<KeySchemaElement, StoreError> {
    KeySchemaElement::builder().attribute_name(name).key_type(role).build().map_err(incomplete)
}

pub(super) fn key_schema(layout: &Layout) -> Result<Vec<KeySchemaElement>, StoreError> {
    key_parts(layout).into_iter().map(|(name, role)| element(name, role)).collect()
}

pub(super) fn index_key_schema(layout: &Layout) -> Result<Vec<KeySchemaElement>, StoreError> {
    index_parts(layout).into_iter().map(|(name, role, _)| element(name, role)).collect()
}

pub(super) fn definitions(layout: &Layout) -> Result<Vec<AttributeDefinition>, StoreError> {
    let definition = |(name, scalar): (&str, ScalarAttributeType)| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(scalar)
            .build()
            .map_err(incomplete)
    };
    typed_parts(layout).into_iter().map(definition).collect()
}

pub(super) fn keys_only() -> Projection {
    Projection::builder().projection_type(ProjectionType::KeysOnly).build()
}

pub(super) fn index(layout: &Layout, name: &str) -> Result<GlobalSecondaryIndex, StoreError> {
    GlobalSecondaryIndex::builder()
        .index_name(name)
        .set_key_schema(Some(index_key_schema(layout)?))
        .projection(keys_only())
        .build()
        .map_err(incomplete)
}
