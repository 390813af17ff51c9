use async_trait::async_trait;
use idempotency_core::{
    ErrorKind, IdempotencyKey, ListPage, ListQuery, ListState, ListedRecord, Operation, Record,
    ReleaseReason, RemoveOutcome, Scope, SeenClaim, SettleOutcome, Settlement, State, StorageKey,
    StoreAdmin, StoreError, Timestamp,
    machine::{self, Decision, Write},
};
use sqlx::postgres::PgRow;

use crate::{
    PostgresStore,
    call::pause,
    error,
    wire::{self, Reply},
};

/// Records are listed in the order of their keys. A page looks at as many rows as it may hold, so a
/// page can be empty and still have a next one.
#[async_trait]
impl StoreAdmin for PostgresStore {
    async fn list(&self, query: ListQuery) -> Result<ListPage, StoreError> {
        let prefix = self.prefix(query.scope.as_ref())?;
        let after = match &query.page {
            None => prefix.clone(),
            Some(page) if page.starts_with(&prefix) => page.clone(),
            Some(_) => {
                let detail = "the page is of another store, or of another query";
                return Err(invalid(detail));
            }
        };
        let limit = i64::try_from(query.limit.max(1)).unwrap_or(i64::MAX);
        // no key has a character above this one
        let end = format!("{prefix}\u{7f}");
        let statement =
            || sqlx::query(self.inner.statements.list.safe()).bind(&after).bind(&end).bind(limit);
        let listed = self.inner.caller.rows(Operation::List, &statement).await;
        let rows = listed.map_err(StoreError::without_effect)?;
        let is_full = i64::try_from(rows.len()).is_ok_and(|found| found == limit);
        let next = match rows.last().filter(|_| is_full) {
            Some(row) => Reply::read_any(Operation::List, row)?.0.map(str::to_owned),
            None => None,
        };
        let mut records = Vec::with_capacity(rows.len());
        for row in &rows {
            records.extend(self.listed(row, &query)?);
        }
        Ok(ListPage { records, next })
    }

    async fn settle(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
        settlement: Settlement,
    ) -> Result<SettleOutcome, StoreError> {
        if let Settlement::Completed { response, .. } = &settlement {
            self.inner.profile.check_response(response)?;
        }
        self.replace(Operation::Settle, key, |record, at| {
            machine::settle(record, seen, &settlement, at.into())
        })
        .await
    }

    async fn remove(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
    ) -> Result<RemoveOutcome, StoreError> {
        self.replace(Operation::Remove, key, |record, at| machine::remove(record, seen, at.into()))
            .await
    }
}

/// An operator's verb that lost against others this often is not meant for this record any more.
const MAX_ROUNDS: u32 = 16;

impl PostgresStore {
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
        if StorageKey::decode(place.as_str(), namespace).is_none() {
            return Err(invalid(
                "with a namespace secret the store cannot tell the scope of a key",
            ));
        }
        Ok(place.as_str().trim_end_matches('k').to_owned())
    }

    /// None: it does not match, or cannot be read.
    fn listed(&self, row: &PgRow, query: &ListQuery) -> Result<Option<ListedRecord>, StoreError> {
        let (place, reply) = Reply::read_any(Operation::List, row)?;
        let Some(Ok(record)) = reply.record else {
            tracing::warn!("idempotency: a row of the list cannot be read and is left out");
            return Ok(None);
        };
        let Some(state) = machine::list_state(&record, reply.at.into()) else {
            return Ok(None);
        };
        let age = reply.at.since(record.first_claimed_at);
        let wanted = query.state.is_none_or(|wanted: ListState| wanted == state)
            && query.older_than.is_none_or(|older_than| age >= older_than);
        if !wanted {
            return Ok(None);
        }
        let key = StorageKey::decode(place.unwrap_or_default(), &self.inner.namespace);
        let digest = key.as_ref().map(IdempotencyKey::digest);
        Ok(Some(ListedRecord { key, digest, state, record }))
    }

    /// Reads, lets `decide` decide, and writes unless the record has changed meanwhile.
    async fn replace<A: Send>(
        &self,
        operation: Operation,
        key: &IdempotencyKey,
        decide: impl Fn(Option<&Record>, Timestamp) -> Decision<A> + Send + Sync,
    ) -> Result<A, StoreError> {
        for round in 0..MAX_ROUNDS {
            let reply = self.inner.look(operation, key).await?;
            let seen = reply.record(operation)?;
            let Decision { write, answer } = decide(seen, reply.at);
            let (Write::Put(record), Some(seen)) = (write, seen) else {
                return Ok(answer);
            };
            if self.put(operation, key, seen, &record).await? {
                return Ok(answer);
            }
            pause(round).await;
        }
        Err(error::conflict(operation))
    }

    async fn put(
        &self,
        operation: Operation,
        key: &IdempotencyKey,
        seen: &Record,
        record: &Record,
    ) -> Result<bool, StoreError> {
        let place = self.inner.namespace.storage_key(key);
        let (seen, new) = (Shape::of(seen), Shape::of(record));
        let response = match &record.state {
            State::Completed { response, .. } => Some(response.as_ref()),
            _ => None,
        };
        let query = || {
            sqlx::query(self.inner.statements.replace.safe())
                .bind(place.as_str())
                .bind(wire::token(seen.token))
                .bind(seen.attempt)
                .bind(seen.state)
                .bind(seen.sequence)
                .bind(seen.lease_until)
                .bind(seen.expires_at)
                .bind(new.state)
                .bind(new.retention_ms)
                .bind(new.expires_at)
                .bind(new.ended_at)
                .bind(response)
        };
        let rows = self.inner.caller.rows(operation, &query).await?;
        Ok(!rows.is_empty())
    }
}

/// The columns of a record that tell its versions apart.
struct Shape {
    token: idempotency_core::ClaimToken,
    attempt: i64,
    state: i16,
    sequence: i64,
    retention_ms: i64,
    lease_until: Option<i64>,
    expires_at: i64,
    ended_at: i64,
}

impl Shape {
    fn of(record: &Record) -> Self {
        let (state, sequence, lease_until, ended_at) = match &record.state {
            State::InProgress { lease_until, sequence, .. } => {
                (0, wire::sequence(*sequence), Some(*lease_until), *lease_until)
            }
            State::Released { reason: ReleaseReason::Failed, at, .. } => (1, 0, None, *at),
            State::Released { reason: ReleaseReason::Unknown, at, .. } => (2, 0, None, *at),
            State::Completed { at, .. } => (3, 0, None, *at),
            // removed or given back: when matters to nobody
            State::Unused => (4, 0, None, record.claimed_at),
        };
        Self {
            token: record.token,
            attempt: i64::from(record.attempt.get()),
            state,
            sequence,
            retention_ms: wire::millis(record.retention.get()),
            lease_until: lease_until.map(wire::unix_millis),
            expires_at: wire::unix_millis(record.expires_at),
            ended_at: wire::unix_millis(ended_at),
        }
    }
}

fn invalid(detail: &'static str) -> StoreError {
    StoreError::new(Operation::List, ErrorKind::Invalid, detail).without_effect()
}
