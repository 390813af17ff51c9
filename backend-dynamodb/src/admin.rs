use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::{
    ErrorKind, IdempotencyKey, IdempotencyStore as _, ListPage, ListQuery, ListState, ListedRecord,
    Operation, RemoveOutcome, Scope, SeenClaim, SettleOutcome, Settlement, StorageKey, StoreAdmin,
    StoreError,
    machine::{self, Now},
};

use crate::{
    DynamoDbStore,
    call::Call,
    expression,
    layout::Attribute,
    page::Page,
    store::Inner,
    values::Values,
    wire::{self, Item, SHARDS},
};

/// Records without an outcome are found by the list index, where the store has one; it lags behind the
/// table by a moment. Everything else is found by a scan, which reads the whole table page by page: a page
/// looks at as many items as it may hold, so it can be empty and still have a next one.
///
/// What is kept at a place of the namespace and cannot be read is left out and logged.
#[async_trait]
impl StoreAdmin for DynamoDbStore {
    async fn list(&self, query: ListQuery) -> Result<ListPage, StoreError> {
        let inner = &*self.inner;
        let call = inner.call(Operation::List);
        let work = async {
            let prefix = self.prefix(query.scope.as_ref())?;
            let by_index =
                inner.layout.index.as_ref().filter(
                    |_| matches!(query.state, Some(state) if state != ListState::Completed),
                );
            let page = match query.page.as_deref() {
                None => Page::first(by_index.is_some()),
                Some(page) => Page::parse(page)
                    .filter(|page| page.shard.is_some() == by_index.is_some())
                    .ok_or_else(|| invalid("the page is of another store, or of another query"))?,
            };
            match by_index {
                Some(index) => inner.list_by_index(&call, &query, &prefix, index, page).await,
                None => inner.list_by_scan(&call, &query, &prefix, page).await,
            }
        };
        call.within(inner.timeout, work).await
    }

    async fn settle(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
        settlement: Settlement,
    ) -> Result<SettleOutcome, StoreError> {
        if let Settlement::Completed { response, .. } = &settlement {
            self.profile().check_response(response)?;
        }
        let (inner, place) = (&*self.inner, self.place(key));
        let call = inner.call(Operation::Settle);
        let work = async {
            inner.know_the_time(&call, &place).await?;
            let now = inner.now();
            let item = inner.look(&call, &place).await?;
            let decide =
                |record: Option<&_>, now| Ok(machine::settle(record, seen, &settlement, now));
            inner.decide(&call, &place, item, now, decide).await
        };
        call.within(inner.timeout, work).await
    }

    async fn remove(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
    ) -> Result<RemoveOutcome, StoreError> {
        let (inner, place) = (&*self.inner, self.place(key));
        let call = inner.call(Operation::Remove);
        let work = async {
            inner.know_the_time(&call, &place).await?;
            let now = inner.now();
            let item = inner.look(&call, &place).await?;
            let decide = |record: Option<&_>, now| Ok(machine::remove(record, seen, now));
            inner.decide(&call, &place, item, now, decide).await
        };
        call.within(inner.timeout, work).await
    }
}

impl DynamoDbStore {
    /// What the places of a scope, or of the namespace, begin with.
    fn prefix(&self, scope: Option<&Scope>) -> Result<String, StoreError> {
        let namespace = &self.inner.namespace;
        let Some(scope) = scope else {
            return Ok(format!("{}/", namespace.name()));
        };
        let Ok(any) = IdempotencyKey::new(scope.clone(), "k") else {
            return Err(invalid("the scope is not one"));
        };
        let place = namespace.storage_key(&any);
        match place.as_str().strip_suffix("/k") {
            Some(of_scope) => Ok(format!("{of_scope}/")),
            None => Err(invalid(
                "the namespace has a secret, so a record does not tell its scope; list without one",
            )),
        }
    }
}

impl Inner {
    async fn list_by_scan(
        &self,
        call: &Call,
        query: &ListQuery,
        prefix: &str,
        page: Page,
    ) -> Result<ListPage, StoreError> {
        let mut filter = "begins_with(#key, :prefix) AND attribute_exists(#format)".to_owned();
        let mut values = Values::new().with(":prefix", wire::text(prefix));
        let sort_key = self.layout.sort_key.as_ref();
        if let Some(sort_key) = sort_key {
            filter.push_str(" AND #sort = :sort");
            values = values.with(":sort", wire::text(&*sort_key.value));
        }
        let mut names = expression::names(&self.layout, &[&filter]);
        names.extend(sort_key.map(|key| ("#sort".to_owned(), key.name.clone())));
        let start = page.after.map(|place| self.key_at(&place));
        let now = self.now();
        let request = self
            .client
            .scan()
            .table_name(&self.layout.table)
            .consistent_read(true)
            .limit(limit(query))
            .filter_expression(filter)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values.0))
            .set_exclusive_start_key(start)
            .customize()
            .interceptor(call.reads())
            .send();
        let reply = call.read(request).await?;
        let next = reply.last_evaluated_key.as_ref().and_then(|key| self.after(key));
        let next = next.map(|place| Page { shard: None, after: Some(place) }.to_string());
        let items = reply.items.unwrap_or_default();
        let records = items.into_iter().filter_map(|item| self.listed(item, query, now)).collect();
        Ok(ListPage { records, next })
    }

    /// The index says which keys to look at; the table says what they stand in.
    async fn list_by_index(
        &self,
        call: &Call,
        query: &ListQuery,
        prefix: &str,
        index: &str,
        page: Page,
    ) -> Result<ListPage, StoreError> {
        let shard = page.shard.unwrap_or_default();
        let now = self.now();
        let mut condition = "#unsettled = :shard".to_owned();
        let mut values =
            Values::new().with(":shard", wire::text(wire::shard(self.namespace.name(), shard)));
        if let Some(age) = query.older_than {
            condition.push_str(" AND #first_claimed_at_ms <= :latest");
            values = values.with(":latest", wire::moment(now.at.before(age)));
        }
        let start = match page.after {
            None => None,
            Some(after) => {
                let (since, place) = after.split_once('.').ok_or_else(not_a_page)?;
                let since: u64 = since.parse().map_err(|_| not_a_page())?;
                let mut key = self.key_at(place);
                let name = |attribute| self.layout.name(attribute).to_owned();
                key.insert(name(Attribute::FirstClaimedAt), wire::number(since));
                let shard = wire::shard(self.namespace.name(), shard);
                key.insert(name(Attribute::Unsettled), wire::text(shard));
                Some(key)
            }
        };
        let request = self
            .client
            .query()
            .table_name(&self.layout.table)
            .index_name(index)
            .limit(limit(query))
            .set_expression_attribute_names(Some(expression::names(&self.layout, &[&condition])))
            .key_condition_expression(condition)
            .set_expression_attribute_values(Some(values.0))
            .set_exclusive_start_key(start)
            .customize()
            .interceptor(call.reads())
            .send();
        let reply = call.read(request).await?;
        let mut records = Vec::new();
        for entry in reply.items.unwrap_or_default() {
            let Some(place) = self.after(&entry).filter(|place| place.starts_with(prefix)) else {
                continue;
            };
            let request = self
                .client
                .get_item()
                .table_name(&self.layout.table)
                .set_key(Some(self.key_at(&place)))
                .consistent_read(true)
                .customize()
                .interceptor(call.reads())
                .send();
            let item = call.read(request).await?.item;
            records.extend(item.and_then(|item| self.listed(item, query, now)));
        }
        let last = reply.last_evaluated_key.as_ref();
        let next = match last.and_then(|key| Some((key, self.after(key)?))) {
            Some((key, place)) => {
                let since = key.get(self.layout.name(Attribute::FirstClaimedAt));
                let since = since.and_then(|since| since.as_n().ok()).ok_or_else(not_a_page)?;
                Some(Page { shard: Some(shard), after: Some(format!("{since}.{place}")) })
            }
            None if shard + 1 < SHARDS => Some(Page { shard: Some(shard + 1), after: None }),
            None => None,
        };
        Ok(ListPage { records, next: next.map(|page| page.to_string()) })
    }

    /// The primary key of the record at a place.
    fn key_at(&self, place: &str) -> Item {
        let mut key = Item::new();
        key.insert(self.layout.partition_key.clone(), AttributeValue::S(place.to_owned()));
        if let Some(sort) = &self.layout.sort_key {
            key.insert(sort.name.clone(), AttributeValue::S(sort.value.clone()));
        }
        key
    }

    fn after(&self, key: &Item) -> Option<String> {
        wire::place_of(&self.layout, key).map(str::to_owned)
    }

    /// None: it does not match, or cannot be read.
    fn listed(&self, mut item: Item, query: &ListQuery, now: Now) -> Option<ListedRecord> {
        let place = wire::place_of(&self.layout, &item)?.to_owned();
        let record = match wire::record(&self.layout, &mut item) {
            Ok(record) => record,
            Err(cause) => {
                tracing::warn!(%cause, "idempotency: an item cannot be read and is left out of a list");
                return None;
            }
        };
        let state = machine::list_state(&record, now)?;
        let age = now.at.since(record.first_claimed_at);
        let is_wanted = query.state.is_none_or(|wanted| wanted == state)
            && query.older_than.is_none_or(|older_than| age >= older_than);
        if !is_wanted {
            return None;
        }
        let key = StorageKey::decode(&place, &self.namespace);
        let digest = key.as_ref().map(IdempotencyKey::digest);
        Some(ListedRecord { key, digest, state, record })
    }
}

fn limit(query: &ListQuery) -> i32 {
    i32::try_from(query.limit.max(1)).unwrap_or(i32::MAX)
}

fn invalid(detail: &'static str) -> StoreError {
    StoreError::new(Operation::List, ErrorKind::Invalid, detail).without_effect()
}

fn not_a_page() -> StoreError {
    invalid("the page is not one of this store")
}
