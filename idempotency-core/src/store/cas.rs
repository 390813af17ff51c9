use std::{fmt, future::Future, time::Duration};

use async_trait::async_trait;

use super::{
    ClaimOutcome, ClaimRequest, CompleteRequest, ErrorKind, FinishOutcome, IdempotencyStore,
    Operation, RecordStore, ReleaseOutcome, ReleaseRequest, RenewOutcome, RenewRequest, StoreError,
    StoreProfile, Version,
};
use crate::{
    key::{IdempotencyKey, Namespace, StorageKey},
    machine::{self, Decision, Now, Write},
    record::Record,
};

/// The whole contract over a store that can only compare and swap.
///
/// Each operation reads the clock and then the record, lets [`machine`] decide, and puts the record
/// back if nobody else did meanwhile; then again, at most 16 times, before it answers `Conflict`.
#[derive(Clone)]
pub struct CasStore<R> {
    records: R,
    namespace: Namespace,
    timeout: Duration,
}

/// Shows nothing of the records.
impl<R: RecordStore> fmt::Debug for CasStore<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CasStore")
            .field("records", &self.profile().name)
            .field("namespace", &self.namespace)
            .field("timeout", &self.timeout)
            .finish()
    }
}

const MAX_ROUNDS: u32 = 16;

impl<R: RecordStore> CasStore<R> {
    /// A store over `records`, in the default namespace, with a time-out of 5 s an operation.
    pub fn new(records: R) -> Self {
        Self { records, namespace: Namespace::default(), timeout: Duration::from_secs(5) }
    }

    /// The same store in another namespace.
    #[must_use]
    pub fn namespace(self, namespace: Namespace) -> Self {
        Self { namespace, ..self }
    }

    /// The same store with another time-out: a longer operation is an error of unknown effect (C51).
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The store below.
    pub const fn records(&self) -> &R {
        &self.records
    }

    async fn apply<A: Send>(
        &self,
        operation: Operation,
        key: &IdempotencyKey,
        decide: impl Fn(Option<&Record>, Now) -> Result<Decision<A>, StoreError> + Send + Sync,
    ) -> Result<A, StoreError> {
        let place = self.namespace.storage_key(key);
        self.within_timeout(operation, async {
            for round in 0..MAX_ROUNDS {
                if round > 0 {
                    // full jitter: without it the same callers meet again
                    let longest = 1_u64 << round.min(6);
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(0..longest))).await;
                }
                let now = self.now(operation).await?;
                let (seen, record) = self.read(operation, &place).await?;
                let Decision { write, answer } = decide(record.as_ref(), now)?;
                let Write::Put(record) = write else {
                    return Ok(answer);
                };
                let value = record.encode(&place);
                let put = self.records.put_if(&place, seen, value, record.expires_at).await;
                if put.map_err(|error| error.during(operation))? {
                    return Ok(answer);
                }
            }
            let detail = format!("others changed the record in each of {MAX_ROUNDS} rounds");
            Err(StoreError::new(operation, ErrorKind::Conflict, detail).without_effect())
        })
        .await
    }

    async fn read(
        &self,
        operation: Operation,
        place: &StorageKey,
    ) -> Result<(Option<Version>, Option<Record>), StoreError> {
        match self.records.get(place).await.map_err(|error| error.during(operation))? {
            None => Ok((None, None)),
            Some(stored) => {
                let record = Record::decode(&stored.value, place)
                    .map_err(|cause| StoreError::corrupt(operation, cause))?;
                Ok((Some(stored.version), Some(record)))
            }
        }
    }

    /// Always asked for before the record is read: a deadline that is over by then was over when the
    /// record was read. The other way round, a record that is renewed between the two would be judged
    /// by its old deadline.
    async fn now(&self, operation: Operation) -> Result<Now, StoreError> {
        let skew_bound = self.records.profile().skew_bound;
        let at = self.records.now().await.map_err(|error| error.during(operation))?;
        Ok(Now { at, skew_bound })
    }

    async fn within_timeout<T>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        tokio::time::timeout(self.timeout, work).await.unwrap_or_else(|_| {
            let detail = format!("nothing within {:?}", self.timeout);
            let error = StoreError::new(operation, ErrorKind::Timeout, detail);
            Err(if operation == Operation::Lookup { error.without_effect() } else { error })
        })
    }
}

#[async_trait]
impl<R: RecordStore> IdempotencyStore for CasStore<R> {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        self.apply(Operation::Claim, request.key, |record, now| {
            machine::claim(record, &request, now)
        })
        .await
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        self.profile().check_response(&request.response)?;
        self.apply(Operation::Complete, request.key, |record, now| {
            Ok(machine::complete(record, &request, now))
        })
        .await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        self.profile().check_checkpoint(request.checkpoint.as_ref())?;
        self.apply(Operation::Renew, request.key, |record, now| {
            Ok(machine::renew(record, &request, now))
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        self.apply(Operation::Release, request.key, |record, now| {
            Ok(machine::release(record, &request, now))
        })
        .await
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        let place = self.namespace.storage_key(key);
        self.within_timeout(Operation::Lookup, async {
            let now = self.now(Operation::Lookup).await?;
            let (_, record) = self.read(Operation::Lookup, &place).await?;
            Ok(machine::lookup(record.as_ref(), now).cloned())
        })
        .await
    }

    fn profile(&self) -> &StoreProfile {
        self.records.profile()
    }
}

#[cfg(test)]
mod tests;
