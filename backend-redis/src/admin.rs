use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use idempotency_core::{
    ErrorKind, IdempotencyKey, IdempotencyStore as _, ListPage, ListQuery, ListedRecord, Operation,
    RemoveOutcome, Scope, SeenClaim, SettleOutcome, Settlement, StorageKey, StoreAdmin, StoreError,
    machine,
};

use crate::{
    RedisStore, answer,
    page::Page,
    scan::begin_again,
    script,
    wire::{self, Name},
};

/// How many records are read at the same time.
const READS: usize = 32;

/// Records are found by `SCAN`, which looks at all keys of the server and leaves those of the namespace:
/// where it holds much else, pages are small and many. What is kept under a key of the namespace and
/// cannot be read is left out and logged.
///
/// A record that is there from the first page to the last is listed, whatever else comes and goes; it can be
/// listed twice when the server sorts its keys anew in between. A list that a restart or a failover cuts in two
/// is refused (`Invalid`). While slots of a Cluster move, records that move with them can be missing.
#[async_trait]
impl StoreAdmin for RedisStore {
    async fn list(&self, query: ListQuery) -> Result<ListPage, StoreError> {
        let pattern = self.pattern(query.scope.as_ref())?;
        self.within_timeout(Operation::List, self.list_page(&query, &pattern)).await
    }

    async fn settle(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
        settlement: Settlement,
    ) -> Result<SettleOutcome, StoreError> {
        let place = self.place(key);
        let (verdict, retention, payload): (&[u8], _, _) = match &settlement {
            Settlement::Completed { response, retention } => {
                self.profile().check_response(response)?;
                (b"C", wire::millis(retention.get()), wire::payload(response))
            }
            Settlement::Failed => (b"F", 0, Vec::new()),
            Settlement::NotStarted => (b"N", 0, Vec::new()),
        };
        let holder = wire::holder(seen.token, seen.attempt);
        let arguments: [&[u8]; 5] =
            [&place.name.mark(), &holder, verdict, &retention.to_be_bytes(), &payload];
        let reply = self.run(Operation::Settle, &script::SETTLE, &place, &arguments).await?;
        self.in_step(answer::settle(place.name, reply))
    }

    async fn remove(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
    ) -> Result<RemoveOutcome, StoreError> {
        let place = self.place(key);
        let holder = wire::holder(seen.token, seen.attempt);
        let arguments: [&[u8]; 3] = [&place.name.mark(), &holder, b"R"];
        let reply = self.run(Operation::Remove, &script::SETTLE, &place, &arguments).await?;
        self.in_step(answer::remove(place.name, reply))
    }
}

impl RedisStore {
    /// What the storage keys look like. A storage key has no character that means something in a pattern.
    fn pattern(&self, scope: Option<&Scope>) -> Result<String, StoreError> {
        let namespace = &self.inner.namespace;
        let Some(scope) = scope else {
            return Ok(format!("{}/*", namespace.name()));
        };
        let refused = |detail: &'static str| {
            StoreError::new(Operation::List, ErrorKind::Invalid, detail).without_effect()
        };
        let key = IdempotencyKey::new(scope.clone(), "k").map_err(|_| refused("no such scope"))?;
        let place = namespace.storage_key(&key);
        match place.as_str().strip_suffix("/k") {
            Some(of_scope) => Ok(format!("{of_scope}/*")),
            None => Err(refused(
                "the namespace has a secret, so a record does not tell its scope; list without one",
            )),
        }
    }

    async fn list_page(&self, query: &ListQuery, pattern: &str) -> Result<ListPage, StoreError> {
        let link = &self.inner.link;
        let failed = |error| self.failed_to_read(Operation::List, &error);
        let primaries = link.primaries().await.map_err(failed)?;
        let page = match query.page.as_deref() {
            None => Page::first(&primaries).ok_or_else(no_primary)?,
            Some(page) => Page::parse(page).ok_or_else(not_a_page)?,
        };
        if !page.is_of(&primaries) {
            return Err(begin_again());
        }
        let limit = query.limit.max(1);
        let scan = self.scan(&page, pattern, limit).await?;
        let (keys, next) = page.shows(scan, limit, &primaries);
        let records = stream::iter(keys).map(|(name, key)| self.listed(name, key, query));
        let records = records.buffered(READS);
        let records: Vec<_> = records.collect().await;
        let records: Result<Vec<_>, _> = records.into_iter().collect();
        Ok(ListPage {
            records: records?.into_iter().flatten().collect(),
            next: next.map(|next| next.to_string()),
        })
    }

    /// The record at `key` if the query asks for it.
    async fn listed(
        &self,
        name: Name,
        key: String,
        query: &ListQuery,
    ) -> Result<Option<ListedRecord>, StoreError> {
        let mark = name.mark();
        let reply = self.inner.link.script(&script::LOOKUP, &key, &[&mark]).await;
        let reply = reply.map_err(|error| self.failed_to_read(Operation::List, &error))?;
        let (record, now) = match answer::lookup(Operation::List, name, reply) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(%error, "left out of a list: it has to be looked at by hand");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let Some(state) = machine::list_state(&record, now.into()) else {
            return Ok(None);
        };
        let age = now.since(record.first_claimed_at);
        let wanted = query.state.is_none_or(|wanted| wanted == state)
            && query.older_than.is_none_or(|older_than| age >= older_than);
        let key = StorageKey::decode(&key, &self.inner.namespace);
        let digest = key.as_ref().map(IdempotencyKey::digest);
        Ok(wanted.then_some(ListedRecord { key, digest, state, record }))
    }
}

fn not_a_page() -> StoreError {
    let detail = "the page is not one that this store gave out; begin again without a page";
    StoreError::new(Operation::List, ErrorKind::Invalid, detail).without_effect()
}

fn no_primary() -> StoreError {
    let detail = "the Cluster names no server that takes writes";
    StoreError::new(Operation::List, ErrorKind::Unavailable, detail).without_effect()
}
