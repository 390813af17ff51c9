use std::num::NonZeroU32;

use async_trait::async_trait;
use bytes::Bytes;
use idempotency_core::{
    ErrorKind, IdempotencyKey, ListPage, ListQuery, ListState, ListedRecord, Operation, Record,
    RemoveOutcome, SeenClaim, SettleOutcome, Settlement, StoreAdmin, StoreError, Sweep,
    SweepReport, Timestamp, machine,
};
use tokio::task;

use crate::{
    MemoryStore,
    records::{Prepared, Records},
    shard::Kept,
};

/// Records are listed in the order of the keyed hash of their key. A page looks at one shard at a
/// time and yields between two of them.
#[async_trait]
impl StoreAdmin for MemoryStore {
    async fn list(&self, query: ListQuery) -> Result<ListPage, StoreError> {
        let records = &self.records;
        let page = query.page.as_deref();
        let mut after = page.map(|page| hash_of(page, records)).transpose()?;
        let limit = query.limit.max(1);
        let mut shard = after.map_or(0, |hash| records.shard_of(hash));
        let mut found = Vec::new();
        while let Some(more) = matching(records, shard, &query, after) {
            found.extend(more);
            if found.len() > limit {
                found.truncate(limit);
                let last = found.last().map(|(hash, _)| *hash);
                let next = last.map(|hash| page_of(hash, records));
                return Ok(list_page(found, next));
            }
            (shard, after) = (shard + 1, None);
            task::yield_now().await;
        }
        Ok(list_page(found, None))
    }

    async fn settle(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
        mut settlement: Settlement,
    ) -> Result<SettleOutcome, StoreError> {
        let own = match &mut settlement {
            Settlement::Completed { response, .. } => {
                self.records.profile.check_response(response)?;
                Some(Bytes::copy_from_slice(&std::mem::take(response)))
            }
            Settlement::Failed | Settlement::NotStarted => None,
        };
        let prepared = Prepared::with_bytes(own);
        self.apply(Operation::Settle, key, prepared, |record, now| {
            machine::settle(record, seen, &settlement, now)
        })
    }

    async fn remove(
        &self,
        key: &IdempotencyKey,
        seen: SeenClaim,
    ) -> Result<RemoveOutcome, StoreError> {
        self.apply(Operation::Remove, key, Prepared::default(), |record, now| {
            machine::remove(record, seen, now)
        })
    }
}

/// Not needed for records to leave, they do that by themselves; for who wants them gone now.
#[async_trait]
impl Sweep for MemoryStore {
    async fn sweep(&self, batch: NonZeroU32) -> Result<SweepReport, StoreError> {
        const BETWEEN_YIELDS: usize = 256;
        let mut left = usize::try_from(batch.get()).unwrap_or(usize::MAX);
        let mut total = SweepReport::default();
        while left > 0 {
            let step = left.min(BETWEEN_YIELDS);
            let report = self.records.sweep(step);
            total.removed += report.removed;
            total.abandoned += report.abandoned;
            total.more = report.more;
            if !report.more {
                break;
            }
            left -= step;
            if left > 0 {
                task::yield_now().await;
            }
        }
        Ok(total)
    }
}

/// The records of a shard that match, in the order of their hashes; none when there is no such shard.
fn matching(
    records: &Records,
    shard: usize,
    query: &ListQuery,
    after: Option<u64>,
) -> Option<Vec<(u64, ListedRecord)>> {
    let now = records.clock.now();
    let found = records.visit(shard, |kept| {
        let listed = |(hash, kept): (u64, &Kept)| {
            let state = listed_state(kept, query, now)?;
            Some((hash, (kept.key.clone(), state, kept.record.clone())))
        };
        let is_after = |(hash, _): &(u64, &Kept)| after.is_none_or(|after| *hash > after);
        kept.filter(is_after).filter_map(listed).collect::<Vec<_>>()
    });
    let mut found: Vec<_> = found?.into_iter().map(with_digest).collect();
    found.sort_unstable_by_key(|(hash, _)| *hash);
    Some(found)
}

/// The state of a record that the query asks for.
fn listed_state(kept: &Kept, query: &ListQuery, now: Timestamp) -> Option<ListState> {
    let state = machine::list_state(&kept.record, now.into())?;
    let age = now.since(kept.record.first_claimed_at);
    let scope = query.scope.as_ref();
    let wanted = query.state.is_none_or(|wanted| wanted == state)
        && scope.is_none_or(|scope| scope.name() == kept.key.scope_name())
        && query.older_than.is_none_or(|older_than| age >= older_than);
    wanted.then_some(state)
}

fn with_digest(
    (hash, (key, state, record)): (u64, (IdempotencyKey, ListState, Record)),
) -> (u64, ListedRecord) {
    let digest = Some(key.digest());
    let key = Some(key);
    (hash, ListedRecord { key, digest, state, record })
}

fn list_page(found: Vec<(u64, ListedRecord)>, next: Option<String>) -> ListPage {
    let records = found.into_iter().map(|(_, listed)| listed).collect();
    ListPage { records, next }
}

/// The page after `hash`. It carries the store's mark, because a hash means nothing to another store.
fn page_of(hash: u64, records: &Records) -> String {
    format!("{:016x}{hash:016x}", records.mark())
}

fn hash_of(page: &str, records: &Records) -> Result<u64, StoreError> {
    let hash = page
        .strip_prefix(&format!("{:016x}", records.mark()))
        .and_then(|hash| u64::from_str_radix(hash, 16).ok());
    hash.ok_or_else(|| {
        let detail = "the page is not one that this store gave out; begin again without a page";
        StoreError::new(Operation::List, ErrorKind::Invalid, detail).without_effect()
    })
}
